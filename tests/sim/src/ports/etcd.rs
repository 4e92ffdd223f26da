//! The local etcd.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_agent::model::{
    AlarmKind, EtcdStatus, EtcdVersion, Fingerprint, KvHash, MemberId, MemberList, NodeName, Revision,
    is_quarantine,
};
use etcd_agent::ports::{AgentHandle, ByteStream, Etcd, PortError, PortResult};

use super::Seat;
use crate::world::{Call, Plane, Refused, World};

/// The etcd of one host, as the agent of `seat` reaches it.
pub(super) struct LocalEtcd {
    pub(super) seat: Arc<Seat>,
    /// The host of that etcd.
    pub(super) host: usize,
}

/// The timeout of a call without an answer, in milliseconds.
const SILENT_MS: u64 = 5000;
/// The timeout of a status request, in milliseconds.
const STATUS_MS: u64 = 1000;

impl LocalEtcd {
    /// True when a request reaches that etcd and its answer comes back.
    fn is_reached(&self) -> bool {
        let world = self.seat.sim.world();
        let me = self.seat.host;
        me == self.host || (world.hosts[self.host].up && world.links.both(Plane::Etcd, me, self.host))
    }

    async fn ask<T>(&self, ask: impl FnOnce(&mut World) -> Result<T, Refused>) -> PortResult<T> {
        self.ask_within(SILENT_MS, ask).await
    }

    /// `patience` is the timeout of the answer, in milliseconds.
    async fn ask_within<T>(
        &self,
        patience: u64,
        ask: impl FnOnce(&mut World) -> Result<T, Refused>,
    ) -> PortResult<T> {
        self.seat.cross().await;
        if !self.is_reached() {
            tokio::time::sleep(std::time::Duration::from_millis(patience)).await;
            return Err(PortError::Retryable("no answer in time".to_owned()));
        }
        let answer = ask(&mut self.seat.sim.world());
        match answer {
            Ok(answer) => Ok(answer),
            Err(Refused::Down) => Err(PortError::Retryable("connection refused".to_owned())),
            Err(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(patience)).await;
                Err(PortError::Retryable("no answer in time".to_owned()))
            }
        }
    }

    async fn change<T>(&self, ask: impl FnOnce(&mut World) -> Result<T, Refused>) -> PortResult<T> {
        self.seat.cross().await;
        self.seat.pause(5).await;
        let answer = ask(&mut self.seat.sim.world());
        self.seat.cross().await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(Refused::Down) => Err(PortError::Retryable("connection refused".to_owned())),
            Err(Refused::Says(why)) => Err(PortError::Retryable(why.to_owned())),
            Err(Refused::NoLeader) => Err(PortError::Retryable("etcdserver: no leader".to_owned())),
            Err(Refused::NotReady) => Err(PortError::Retryable("no answer in time".to_owned())),
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
        let (host, own) = (self.host, self.host == self.seat.host);
        self.ask_within(STATUS_MS, |world| {
            let mut status = world.status(host)?;
            if !own {
                // The client port of a lying host lies as well.
                crate::liar::etcd_status(world, host, &mut status);
            }
            Ok(status)
        })
        .await
    }

    async fn members(&self, linearizable: bool) -> PortResult<MemberList> {
        let (host, own) = (self.host, self.host == self.seat.host);
        self.ask(|world| {
            let mut list = world.members(host, linearizable)?;
            if !own {
                crate::liar::members(world, host, &mut list);
            }
            Ok(list)
        })
        .await
    }

    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId> {
        let (host, url) = (self.host, peer_urls.first().cloned().unwrap_or_default());
        self.change(|world| world.add_learner(host, &url)).await
    }

    async fn remove_member(&self, id: MemberId) -> PortResult<()> {
        let host = self.host;
        let agent = self.seat.sim.agent(self.seat.host);
        let reasons = agent
            .and_then(|agent| agent.plan_view())
            .map(|view| view.decision.reasons);
        let says = |code: &str| {
            let mut reasons = reasons.iter().flatten();
            reasons.any(|reason| reason.code == code)
        };
        let (gone, corrupt) = (says("replace-gone"), says("replace-corrupt"));
        self.change(|world| {
            if gone {
                world.check_gone(host, id);
            }
            if corrupt {
                world.check_differs(host, id);
            }
            world.remove_member(host, id)
        })
        .await
    }

    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()> {
        let (host, url) = (self.host, peer_urls.first().cloned().unwrap_or_default());
        self.change(|world| world.update_member(host, id, &url)).await
    }

    async fn probe(&self, client_url: &str) -> PortResult<()> {
        let host = self.host;
        self.ask(|world| world.probe(host, client_url)).await
    }

    fn of(&self, node: &NodeName) -> Option<Arc<dyn Etcd>> {
        let host = self.seat.sim.world().host_of(node)?;
        let seat = self.seat.clone();
        Some(Arc::new(Self { seat, host }))
    }

    async fn promote(&self, id: MemberId) -> PortResult<()> {
        let host = self.host;
        self.change(|world| world.promote(host, id)).await
    }

    async fn move_leader(&self, to: MemberId) -> PortResult<()> {
        let host = self.host;
        self.change(|world| world.move_leader(host, to)).await
    }

    async fn downgrade(&self, to: Option<EtcdVersion>) -> PortResult<()> {
        let host = self.host;
        self.change(|world| world.downgrade(host, to)).await
    }

    async fn defragment(&self) -> PortResult<()> {
        let host = self.host;
        let answer_lost = self.seat.breaks(Call::Defrag)?;
        self.change(|world| world.begin_defrag(host)).await?;
        if answer_lost {
            return Err(PortError::OutcomeUnknown("no answer in time".to_owned()));
        }
        while self.seat.sim.world().hosts[host].db.defrag_until.is_some() {
            self.seat.pause(100).await;
        }
        self.seat.cross().await;
        Ok(())
    }

    async fn read(&self) -> PortResult<()> {
        let host = self.host;
        self.ask_within(STATUS_MS, |world| {
            if world.hosts[host].db.defrag_until.is_some() {
                return Err(Refused::NotReady);
            }
            world.status(host).map(drop)
        })
        .await
    }

    async fn compact(&self, _at: Revision) -> PortResult<()> {
        let host = self.host;
        self.change(|world| world.compact(host)).await
    }

    async fn fingerprint(&self, revision: Revision, _hash: bool) -> PortResult<Fingerprint> {
        let (host, own) = (self.host, self.host == self.seat.host);
        self.ask(|world| {
            let mut found = world.fingerprint(host, revision)?;
            if !own {
                crate::liar::fingerprint(world, host, &mut found);
            }
            Ok(found)
        })
        .await
    }

    async fn hash_data(&self, revision: Revision) -> PortResult<KvHash> {
        let hash = self.fingerprint(revision, true).await?.hash;
        hash.ok_or_else(|| PortError::Permanent("etcd reports no hash".to_owned()))
    }

    async fn alarms(&self) -> PortResult<Vec<(MemberId, AlarmKind)>> {
        let host = self.host;
        self.change(|world| world.alarms(host)).await
    }

    async fn raise(&self, member: MemberId, _alarm: AlarmKind) -> PortResult<()> {
        let host = self.host;
        self.change(|world| world.set_quarantine(host, member, true))
            .await
    }

    async fn disarm(&self, member: MemberId, alarm: AlarmKind) -> PortResult<()> {
        let host = self.host;
        self.change(|world| {
            if is_quarantine((member, alarm)) {
                world.set_quarantine(host, member, false)
            } else {
                world.disarm(host)
            }
        })
        .await
    }

    async fn refuses_changes(&self, _absent: &str) -> PortResult<bool> {
        let host = self.host;
        self.ask(|world| {
            // As the alarms, the request goes through raft.
            world.alarms(host)?;
            Ok(world.knows_quarantine(host))
        })
        .await
    }

    async fn auth_enabled(&self) -> PortResult<bool> {
        Ok(false)
    }

    async fn snapshot(&self) -> PortResult<ByteStream> {
        // Backups are taken as a whole: `ports::backups`.
        Err(PortError::Permanent(
            "the simulator has no snapshot streams".to_owned(),
        ))
    }
}
