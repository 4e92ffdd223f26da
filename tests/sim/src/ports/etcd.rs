//! The local etcd.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_agent::model::{EtcdStatus, MemberId, MemberList};
use etcd_agent::ports::{ByteStream, Etcd, PortError, PortResult};

use super::Seat;
use crate::world::{Refused, World};

pub(super) struct LocalEtcd(pub(super) Arc<Seat>);

/// How long a call without an answer is waited for, in milliseconds.
const SILENT_MS: u64 = 5000;

impl LocalEtcd {
    async fn read<T>(&self, ask: impl FnOnce(&mut World) -> Result<T, Refused>) -> PortResult<T> {
        self.0.cross().await;
        let answer = ask(&mut self.0.sim.world());
        match answer {
            Ok(answer) => Ok(answer),
            Err(Refused::Down) => Err(PortError::Retryable("connection refused".to_owned())),
            Err(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(SILENT_MS)).await;
                Err(PortError::Retryable("no answer in time".to_owned()))
            }
        }
    }

    async fn change<T>(&self, ask: impl FnOnce(&mut World) -> Result<T, Refused>) -> PortResult<T> {
        self.0.cross().await;
        self.0.pause(5).await;
        let answer = ask(&mut self.0.sim.world());
        self.0.cross().await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(Refused::Down) => Err(PortError::Retryable("connection refused".to_owned())),
            Err(Refused::Says(why)) => Err(PortError::Retryable(why.to_owned())),
            Err(Refused::NoLeader) => Err(PortError::Retryable("etcdserver: no leader".to_owned())),
            Err(Refused::Unknown) => {
                tokio::time::sleep(std::time::Duration::from_millis(SILENT_MS)).await;
                Err(PortError::OutcomeUnknown("no answer in time".to_owned()))
            }
        }
    }
}

#[async_trait]
impl Etcd for LocalEtcd {
    async fn status(&self) -> PortResult<EtcdStatus> {
        let host = self.0.host;
        self.read(|world| world.status(host)).await
    }

    async fn members(&self, linearizable: bool) -> PortResult<MemberList> {
        let host = self.0.host;
        self.read(|world| world.members(host, linearizable)).await
    }

    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId> {
        let (host, url) = (self.0.host, peer_urls.first().cloned().unwrap_or_default());
        self.change(|world| world.add_learner(host, &url)).await
    }

    async fn remove_member(&self, id: MemberId) -> PortResult<()> {
        let host = self.0.host;
        self.change(|world| world.remove_member(host, id)).await
    }

    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()> {
        let (host, url) = (self.0.host, peer_urls.first().cloned().unwrap_or_default());
        self.change(|world| world.update_member(host, id, &url)).await
    }

    async fn probe(&self, client_url: &str) -> PortResult<()> {
        let host = self.0.host;
        self.read(|world| world.probe(host, client_url)).await
    }

    async fn promote(&self, id: MemberId) -> PortResult<()> {
        let host = self.0.host;
        self.change(|world| world.promote(host, id)).await
    }

    async fn move_leader(&self, to: MemberId) -> PortResult<()> {
        let host = self.0.host;
        self.change(|world| world.move_leader(host, to)).await
    }

    async fn snapshot(&self) -> PortResult<ByteStream> {
        // Backups are taken as a whole: `ports::backups`.
        Err(PortError::Permanent(
            "the simulator has no snapshot streams".to_owned(),
        ))
    }
}
