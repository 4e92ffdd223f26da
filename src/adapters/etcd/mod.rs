//! Access to the local etcd over gRPC, and through it to the cluster.

mod channel;
mod errors;
mod kv;
mod local;
mod probe;
mod proto;
mod v2;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{AlarmAction, AlarmType, CompactionOptions, GetOptions, MemberAddOptions};
use futures::{StreamExt, stream};
use hyper::http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::Request;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::model::{
    AlarmKind, ClusterId, EtcdStatus, EtcdVersion, Fingerprint, KvHash, Member, MemberId, MemberList,
    NodeName, Past, RaftTerm, Revision, TlsFiles, V2Key, Watched,
};
use crate::ports::{ByteStream, Etcd, PortError, PortResult, WatchStream};

pub use local::LocalEtcd;

use errors::{Kind, no_answer, status_error};
use local::{MEMBERS, presented};

const STATUS: Duration = Duration::from_secs(1);
/// The deadline for the changes of a past revision. A large transaction comes in several messages.
const PAST: Duration = Duration::from_secs(5);
/// etcd sends snapshot chunks without pause; before the first one it may have to commit a large batch.
const SNAPSHOT_IDLE: Duration = Duration::from_secs(30);
/// A defragmentation writes the whole database anew, and a compaction reads it.
const DEFRAGMENT: Duration = Duration::from_mins(15);
/// A hash reads the whole database.
const FINGERPRINT: Duration = Duration::from_mins(10);

#[async_trait]
impl Etcd for LocalEtcd {
    fn serves_with(&self, ways: &[Option<TlsFiles>]) {
        let with = |way: &Option<TlsFiles>| way.as_ref().map(|etcd| presented(self.own.as_ref(), etcd));
        self.connector.serves_in(ways.iter().map(with).collect());
    }

    async fn status(&self) -> PortResult<EtcdStatus> {
        let doing = "read the status";
        let path = "/etcdserverpb.Maintenance/Status";
        let asked = self.unary_within(STATUS, doing, path, proto::StatusRequest {});
        let answer: proto::StatusResponse = asked.await?;
        let header = answer
            .header
            .ok_or_else(|| PortError::Retryable(self.what(doing) + ": the answer has no header"))?;
        answer
            .version
            .clone_into(&mut self.version.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(EtcdStatus {
            version: answer.version,
            storage_version: EtcdVersion::reported(&answer.storage_version),
            downgrade_to: answer
                .downgrade
                .filter(|downgrade| downgrade.enabled)
                .and_then(|downgrade| EtcdVersion::reported(&downgrade.target_version)),
            cluster_id: ClusterId(header.cluster_id),
            member_id: MemberId(header.member_id),
            leader: Some(answer.leader).filter(|id| *id != 0).map(MemberId),
            is_learner: answer.is_learner,
            term: RaftTerm(answer.raft_term),
            index: answer.raft_index,
            applied: answer.raft_applied_index,
            db_size_bytes: u64::try_from(answer.db_size).unwrap_or(0),
            // etcd 3.4 and newer report it.
            db_in_use_bytes: u64::try_from(answer.db_size_in_use)
                .ok()
                .filter(|bytes| *bytes > 0),
            revision: Revision(u64::try_from(header.revision).unwrap_or(0)),
            // These include alarms: etcd writes `memberID:… alarm:NOSPACE`.
            errors: answer.errors.iter().map(|text| text.trim().to_owned()).collect(),
        })
    }

    async fn members(&self, linearizable: bool) -> PortResult<MemberList> {
        if linearizable && self.is_3_4().await? {
            // etcd 3.4 ignores `linearizable` and answers from memory. After a read through quorum that
            // memory is at least as new as the read.
            self.call("read through quorum", Kind::Read, MEMBERS, |client| async move {
                client.kv_client().get("\0", None).await.map(|_| ())
            })
            .await?;
        }
        let answer = self.list(linearizable).await?;
        let header = answer.header.unwrap_or_default();
        let mut members: Vec<Member> = answer
            .members
            .into_iter()
            .map(|member| Member {
                id: MemberId(member.id),
                name: member.name,
                peer_urls: member.peer_urls,
                client_urls: member.client_urls,
                is_learner: member.is_learner,
            })
            .collect();
        members.sort_by_key(|member| member.id);
        Ok(MemberList {
            cluster_id: ClusterId(header.cluster_id),
            term: RaftTerm(header.raft_term),
            linearizable,
            members,
        })
    }

    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId> {
        let urls = peer_urls.to_vec();
        let doing = format!("add the learner {}", urls.join(","));
        let answer = self
            .call(&doing, Kind::Change, MEMBERS, |client| async move {
                let options = MemberAddOptions::new().with_is_learner();
                client.cluster_client().member_add(urls, Some(options)).await
            })
            .await?;
        answer
            .member()
            .map(|member| MemberId(member.id()))
            .ok_or_else(|| PortError::OutcomeUnknown(self.what(&doing) + ": the answer names no member"))
    }

    async fn remove_member(&self, id: MemberId) -> PortResult<()> {
        self.call(
            &format!("remove member {id}"),
            Kind::Change,
            MEMBERS,
            |client| async move { client.cluster_client().member_remove(id.0).await.map(|_| ()) },
        )
        .await
    }

    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()> {
        let urls = peer_urls.to_vec();
        self.call(
            &format!("give member {id} the address {}", urls.join(",")),
            Kind::Change,
            MEMBERS,
            |client| async move {
                client
                    .cluster_client()
                    .member_update(id.0, urls)
                    .await
                    .map(|_| ())
            },
        )
        .await
    }

    async fn probe(&self, client_url: &str) -> PortResult<()> {
        let tls = self.connector.tls().map_err(PortError::Permanent)?;
        probe::probe(client_url, tls).await
    }

    fn of(&self, node: &NodeName) -> Option<Arc<dyn Etcd>> {
        let address = self.others.get(node)?.clone();
        Some(Arc::new(Self {
            watch_limit: self.watch_limit,
            ..Self::at(address, self.connector.files())
        }))
    }

    async fn promote(&self, id: MemberId) -> PortResult<()> {
        self.call(
            &format!("promote member {id}"),
            Kind::Change,
            MEMBERS,
            |client| async move { client.cluster_client().member_promote(id.0).await.map(|_| ()) },
        )
        .await
    }

    async fn move_leader(&self, to: MemberId) -> PortResult<()> {
        self.call(
            &format!("move the leader to member {to}"),
            Kind::Change,
            MEMBERS,
            |client| async move { client.maintenance_client().move_leader(to.0).await.map(|_| ()) },
        )
        .await
    }

    async fn validate_downgrade(&self, to: EtcdVersion) -> PortResult<()> {
        self.ask_downgrade("check", proto::VALIDATE, Some(to)).await
    }

    async fn downgrade(&self, to: Option<EtcdVersion>) -> PortResult<()> {
        match to {
            Some(_) => self.ask_downgrade("prepare", proto::ENABLE, to).await,
            None => self.ask_downgrade("end", proto::CANCEL, None).await,
        }
    }

    async fn alarms(&self) -> PortResult<Vec<(MemberId, AlarmKind)>> {
        let path = "/etcdserverpb.Maintenance/Alarm";
        let answer: proto::AlarmResponse = self.unary("list alarms", path, proto::AlarmRequest {}).await?;
        let known = answer.alarms.into_iter().filter_map(|raised| {
            let kind = match AlarmType::try_from(raised.alarm) {
                Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
                Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
                Ok(AlarmType::None) | Err(_) => {
                    tracing::warn!("etcd has an alarm of the unknown kind {}", raised.alarm);
                    return None;
                }
            };
            Some((MemberId(raised.member_id), kind))
        });
        Ok(known.collect())
    }

    async fn raise(&self, member: MemberId, alarm: AlarmKind) -> PortResult<()> {
        self.alarm("raise", AlarmAction::Activate, member, alarm).await
    }

    async fn disarm(&self, member: MemberId, alarm: AlarmKind) -> PortResult<()> {
        self.alarm("disarm", AlarmAction::Deactivate, member, alarm).await
    }

    async fn refuses_changes(&self, absent: &str) -> PortResult<bool> {
        self.refuses_deletion(absent).await
    }

    async fn defragment(&self) -> PortResult<()> {
        self.call("defragment", Kind::Change, DEFRAGMENT, |client| async move {
            client.maintenance_client().defragment().await.map(drop)
        })
        .await
    }

    async fn read(&self) -> PortResult<()> {
        self.call("read", Kind::Read, MEMBERS, |client| async move {
            let local = GetOptions::new().with_serializable().with_count_only();
            client.kv_client().get("\0", Some(local)).await.map(drop)
        })
        .await
    }

    async fn compact(&self, at: Revision) -> PortResult<()> {
        let revision =
            i64::try_from(at.0).map_err(|_| PortError::Permanent(format!("etcd has no revision {at}")))?;
        let doing = format!("compact revision {at}");
        let done = self
            .call(&doing, Kind::Change, DEFRAGMENT, |client| async move {
                let physical = CompactionOptions::new().with_physical();
                client
                    .kv_client()
                    .compact(revision, Some(physical))
                    .await
                    .map(drop)
            })
            .await;
        match done {
            Err(PortError::Permanent(why) | PortError::Retryable(why))
                if why.contains("has been compacted") =>
            {
                Ok(())
            }
            done => done,
        }
    }

    async fn snapshot(&self) -> PortResult<ByteStream> {
        let what = self.what("stream a snapshot");
        let channel = self
            .connector
            .own_channel()
            .map_err(|why| PortError::Retryable(format!("{what}: {why}")))?;
        let opened = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| tonic::Status::from_error(Box::new(error)))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Maintenance/Snapshot");
            let codec = ProstCodec::<proto::SnapshotRequest, proto::SnapshotResponse>::default();
            let request = Request::new(proto::SnapshotRequest {});
            grpc.server_streaming(request, path, codec).await
        };
        let chunks = match timeout(SNAPSHOT_IDLE, opened).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(status_error(&what, Kind::Read, &status)),
            Err(_) => return Err(no_answer(&what, Kind::Read, SNAPSHOT_IDLE)),
        };
        Ok(Box::pin(stream::try_unfold(
            (chunks, what),
            |(mut chunks, what)| async move {
                match timeout(SNAPSHOT_IDLE, chunks.message()).await {
                    Ok(Ok(Some(chunk))) => Ok(Some((chunk.blob, (chunks, what)))),
                    Ok(Ok(None)) => Ok(None),
                    Ok(Err(status)) => Err(status_error(&what, Kind::Read, &status)),
                    Err(_) => Err(no_answer(&what, Kind::Read, SNAPSHOT_IDLE)),
                }
            },
        )))
    }

    async fn fingerprint(&self, revision: Revision, hash: bool) -> PortResult<Fingerprint> {
        let at = number(revision)?;
        let keys = self
            .call("count the keys", Kind::Read, FINGERPRINT, |client| async move {
                // Serializable, from this member alone: a count does not need to involve the leader.
                let options = GetOptions::new()
                    .with_all_keys()
                    .with_count_only()
                    .with_revision(at)
                    .with_serializable();
                client.kv_client().get("", Some(options)).await
            })
            .await
            .map(|answer| u64::try_from(answer.count()).unwrap_or(0));
        let hash = if hash {
            self.hash_data(revision).await.map(Some)
        } else {
            Ok(None)
        };
        match (keys, hash) {
            (Err(error), Err(_) | Ok(None)) => Err(error),
            (keys, hash) => Ok(Fingerprint {
                revision,
                keys: keys.ok(),
                hash: hash.ok().flatten(),
            }),
        }
    }

    async fn hash_data(&self, revision: Revision) -> PortResult<KvHash> {
        let at = number(revision)?;
        let answer = self
            .call("hash the keys", Kind::Read, FINGERPRINT, |client| async move {
                client.maintenance_client().hash_kv(at).await
            })
            .await?;
        Ok(KvHash {
            hash: answer.hash(),
            compact_revision: Revision(u64::try_from(answer.compact_version()).unwrap_or(0)),
        })
    }

    async fn watch(&self, from: Revision) -> PortResult<WatchStream> {
        watch::open(
            &self.connector,
            self.what("watch all keys"),
            from,
            self.watch_limit,
        )
        .await
    }

    async fn past(&self, at: Revision) -> PortResult<Past> {
        // The version, which this stores, decides how `members` reads through quorum.
        self.status().await?;
        // The answer comes through raft. Later answers of this member are therefore no older than what etcd
        // had acknowledged before.
        self.members(true).await?;
        let newest = self.status().await?.revision;
        if newest < at {
            return Ok(Past::Ahead(newest));
        }
        // etcd begins at this revision and writes nothing as it. A watch would deliver nothing until the
        // deadline.
        if at <= Revision(1) {
            return Ok(Past::Gone(newest));
        }
        let what = self.what(&format!("read revision {at}"));
        let mut watch = watch::open(&self.connector, what.clone(), at, self.watch_limit).await?;
        // The revision exists, so a watch delivers it at once.
        match timeout(PAST, watch.next()).await {
            Ok(Some(Ok(Watched::Revisions { changes, .. }))) => {
                let first = changes.into_iter().next();
                Ok(first
                    .filter(|first| first.revision == at)
                    .map_or(Past::Gone(newest), Past::Changes))
            }
            Ok(Some(Ok(Watched::Compacted(_)))) => Ok(Past::Gone(newest)),
            Ok(Some(Err(error))) => Err(error),
            Ok(None) => Err(PortError::Retryable(format!("{what}: the watch ended"))),
            // Not every version delivers a compacted deletion, and no revision after the newest one exists to
            // be delivered.
            Err(_) if newest == at => Ok(Past::Gone(newest)),
            Err(_) => Err(no_answer(&what, Kind::Read, PAST)),
        }
    }

    async fn auth_revision(&self) -> PortResult<u64> {
        Ok(self.auth_status().await?.auth_revision)
    }

    async fn auth_enabled(&self) -> PortResult<bool> {
        if !self.has_3_4().await? {
            return Ok(self.auth_status().await?.enabled);
        }
        // Before etcd looks at name and password, it says if authentication is off.
        let path = "/etcdserverpb.Auth/Authenticate";
        let nobody = proto::AuthenticateRequest::default();
        let answer: PortResult<proto::AuthenticateResponse> =
            self.unary("ask whether authentication is on", path, nobody).await;
        match answer {
            Err(PortError::Permanent(why) | PortError::Retryable(why))
                if why.contains("authentication is not enabled") =>
            {
                Ok(false)
            }
            Err(PortError::Permanent(why) | PortError::Retryable(why))
                if why.contains("authentication failed") || why.contains("user name is empty") =>
            {
                Ok(true)
            }
            Err(error) => Err(error),
            Ok(_) => Ok(true),
        }
    }

    async fn lease_ttl(&self, id: i64) -> PortResult<Option<i64>> {
        let answer = self
            .call("ask for a lease", Kind::Read, MEMBERS, |client| async move {
                client.lease_client().time_to_live(id, None).await
            })
            .await?;
        // For a lease that does not exist, etcd answers with a TTL of -1.
        let there = answer.ttl() >= 0 && answer.granted_ttl() > 0;
        Ok(there.then(|| answer.granted_ttl()))
    }

    async fn v2_keys(&self, hidden: &BTreeSet<String>) -> PortResult<Option<Vec<V2Key>>> {
        // Through quorum: this member then knows everything that was acknowledged before.
        self.read_value("\0").await?;
        let tls = self.connector.tls().map_err(PortError::Permanent)?;
        v2::keys(&self.connector.url(), tls, hidden).await
    }

    async fn value(&self, key: &str) -> PortResult<Option<(Vec<u8>, bool)>> {
        self.read_value(key).await
    }

    async fn create(&self, key: &V2Key) -> PortResult<()> {
        self.put_new(key).await
    }
}

/// A revision as etcd's requests have it.
fn number(revision: Revision) -> PortResult<i64> {
    i64::try_from(revision.0)
        .map_err(|_| PortError::Permanent(format!("{revision} is not a valid etcd revision")))
}
