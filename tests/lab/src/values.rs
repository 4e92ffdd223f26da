//! Reads and writes values of any size from the outside: `etcdctl` cannot send more than 2 MiB.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use etcd_client::{Txn, TxnOp};
use tokio::time::timeout;

use crate::lab::Lab;
use crate::load::{Target, in_outside};
use crate::wait::wait_for;

/// The timeout of one try at one endpoint: a large value goes to all members, and one of them may have a slow
/// cable.
const TRY: Duration = Duration::from_secs(10);

/// The total time for a write or a read, including an election.
const PATIENCE: Duration = Duration::from_mins(2);

/// More than the largest request that the lab allows in etcd.
const MOST_BYTES: usize = 16 << 20;

impl Lab {
    /// Puts and deletes keys in one transaction. It is repeated until it is acknowledged.
    pub fn write(&self, puts: &[(&str, &[u8])], deletes: &[&str]) -> Result<()> {
        let puts = puts.iter().map(|(key, value)| TxnOp::put(*key, *value, None));
        let deletes = deletes.iter().map(|key| TxnOp::delete(*key, None));
        let txn = Txn::new().and_then(puts.chain(deletes).collect::<Vec<_>>());
        let target = self.target()?;
        wait_for("a write to be acknowledged", PATIENCE, || {
            in_outside(&target, || async { write(&target, &txn).await.map(Some) })
        })
    }

    /// The value from a linearizable read; `None` if there is no such key.
    pub fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let target = self.target()?;
        wait_for(&format!("a read of {key}"), PATIENCE, || {
            in_outside(&target, || async { read(&target, key).await.map(Some) })
        })
    }
}

async fn write(target: &Target, txn: &Txn) -> Result<()> {
    let mut last = anyhow!("no endpoint");
    for endpoint in &target.endpoints {
        let write = async {
            let mut client = target.connect(endpoint).await?;
            client.txn(txn.clone()).await?;
            anyhow::Ok(())
        };
        match timeout(TRY, write).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = error.context(endpoint.clone()),
            Err(_) => last = anyhow!("{endpoint} did not answer"),
        }
    }
    Err(last).context("writing a transaction")
}

async fn read(target: &Target, key: &str) -> Result<Option<Vec<u8>>> {
    let mut last = anyhow!("no endpoint");
    for endpoint in &target.endpoints {
        let read = async {
            let client = target.connect(endpoint).await?.kv_client();
            let mut client = client.max_decoding_message_size(MOST_BYTES);
            let found = client.get(key, None).await?;
            anyhow::Ok(found.kvs().first().map(|pair| pair.value().to_vec()))
        };
        match timeout(TRY, read).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => last = error.context(endpoint.clone()),
            Err(_) => last = anyhow!("{endpoint} did not answer"),
        }
    }
    Err(last).context("reading a value")
}
