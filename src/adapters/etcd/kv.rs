//! Single keys of the v3 API. The agent puts keys only while it carries those of the v2 API.

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};

use super::errors::Kind;
use super::local::{LocalEtcd, MEMBERS};
use crate::model::V2Key;
use crate::ports::{PortError, PortResult};

/// etcd's text for CORRUPT. Source: `ErrGRPCCorrupt` in etcd's `api/v3rpc/rpctypes/error.go` (3.4 to 3.7).
const CORRUPT: &str = "corrupt cluster";

impl LocalEtcd {
    /// The value of a key, and whether it has a lease; read through quorum.
    pub(super) async fn read_value(&self, key: &str) -> PortResult<Option<(Vec<u8>, bool)>> {
        let doing = format!("read the key {key:?}");
        let answer = self
            .call(&doing, Kind::Read, MEMBERS, |client| async move {
                client.kv_client().get(key, None).await
            })
            .await?;
        let found = answer.kvs().first();
        Ok(found.map(|found| (found.value().to_vec(), found.lease() != 0)))
    }

    /// Asks to delete a key that does not exist: true if this member refuses that because of CORRUPT. Unlike
    /// a put it changes nothing where it is accepted, and etcd answers no deletion before raft has ordered
    /// it.
    pub(super) async fn refuses_deletion(&self, absent: &str) -> PortResult<bool> {
        let asked = self
            .call("ask for a refusal", Kind::Read, MEMBERS, |client| async move {
                client.kv_client().delete(absent, None).await.map(drop)
            })
            .await;
        match asked {
            Ok(()) => Ok(false),
            Err(PortError::Permanent(why) | PortError::Retryable(why)) if why.contains(CORRUPT) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Puts a key unless it exists.
    pub(super) async fn put_new(&self, key: &V2Key) -> PortResult<()> {
        let doing = format!("put the key {:?}", key.name);
        self.call(&doing, Kind::Change, MEMBERS, |client| async move {
            let options = match key.ttl {
                Some(ttl) => {
                    let granted = client.lease_client().grant(ttl.max(1), None).await?;
                    PutOptions::new().with_lease(granted.id())
                }
                None => PutOptions::new(),
            };
            let absent = Compare::version(key.name.as_str(), CompareOp::Equal, 0);
            let put = TxnOp::put(key.name.as_str(), key.value.as_str(), Some(options));
            client
                .kv_client()
                .txn(Txn::new().when([absent]).and_then([put]))
                .await
                .map(drop)
        })
        .await
    }
}
