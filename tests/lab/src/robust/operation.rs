//! The operations on the cluster while clients write, and their order.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{MEMBERS, Round};
use crate::host::Host;
use crate::lab::PATIENCE;
use crate::random::Random;
use crate::wait::{wait_for, wait_until};

/// The number of members while the cluster is larger.
const LARGER: usize = 5;

/// One operation, on a member's host or by the agent of the raft leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// `etcd-agent restart --rolling`.
    RollingRestart,
    /// `etcd-agent move-leader`.
    MoveLeader,
    /// SIGKILL to etcd.
    KillEtcd,
    /// SIGKILL to the agent.
    KillAgent,
    /// The host shuts down in order and boots.
    Reboot,
    /// The host loses its power and boots.
    PowerLoss,
    /// The host loses its power and the member's data, and boots.
    Wipe,
    /// `etcd-agent backup now`.
    Backup,
    /// The host loses its power, is replaced by a spare, and boots.
    ReplaceDead,
    /// `etcd-agent spec set` to 5 and back.
    Resize,
}

impl Operation {
    const ALL: [Self; 10] = [
        Self::RollingRestart,
        Self::MoveLeader,
        Self::KillEtcd,
        Self::KillAgent,
        Self::Reboot,
        Self::PowerLoss,
        Self::Wipe,
        Self::Backup,
        Self::ReplaceDead,
        Self::Resize,
    ];

    /// The number of hosts that the operation needs.
    fn hosts(self) -> usize {
        match self {
            Self::ReplaceDead => MEMBERS + 1,
            Self::Resize => LARGER,
            _ => MEMBERS,
        }
    }
}

/// All operations that this number of hosts allows, then all of them again in another order, without end.
pub(super) struct Order {
    random: Random,
    hosts: usize,
    left: Vec<Operation>,
}

impl Order {
    pub(super) fn new(seed: u64, hosts: usize) -> Self {
        Self {
            random: Random::new(seed),
            hosts,
            left: Vec::new(),
        }
    }

    pub(super) fn next_one(&mut self) -> Operation {
        loop {
            if let Some(operation) = self.left.pop() {
                return operation;
            }
            let allowed = Operation::ALL.into_iter().filter(|one| one.hosts() <= self.hosts);
            self.left = allowed.collect();
            self.random.shuffle(&mut self.left);
        }
    }
}

impl Round<'_> {
    /// Carries out an operation on `host`, and waits until it is done.
    pub(super) fn carry_out(&self, operation: Operation, host: &Host) -> Result<()> {
        match operation {
            Operation::RollingRestart => self.order(&["restart", "--rolling", "--timeout", "150s"]),
            Operation::MoveLeader => self.order(&["move-leader", "--timeout", "90s"]),
            Operation::Backup => self.order(&["backup", "now", "--timeout", "150s"]),
            Operation::KillEtcd => kill(host, "etcd"),
            Operation::KillAgent => kill(host, "etcd-agent"),
            Operation::Reboot => host.reboot().map(drop),
            Operation::PowerLoss => {
                host.kill()?;
                host.boot().map(drop)
            }
            Operation::Wipe => {
                host.kill()?;
                self.logs.take(host)?;
                host.boot().map(drop)
            }
            Operation::ReplaceDead => {
                host.kill()?;
                self.wait_replaced(host)?;
                host.boot().map(drop)
            }
            Operation::Resize => {
                self.order(&["spec", "set", &format!("size={LARGER}")])?;
                self.lab.wait_healthy(LARGER, PATIENCE)?;
                self.order(&["spec", "set", &format!("size={MEMBERS}")])
            }
        }
    }

    /// Runs `etcd-agent` on the leader's host. It is repeated if it refuses: after the last operation the
    /// cluster is healthy, but an agent may just have started, or a backup before a change may be running.
    fn order(&self, args: &[&str]) -> Result<()> {
        let mut argv = vec!["etcd-agent"];
        argv.extend(args);
        wait_for(&format!("`{}`", argv.join(" ")), PATIENCE, || {
            let leader = self.lab.raft_leader()?;
            leader.exec_for(Duration::from_mins(3), &argv)?.ok().map(Some)
        })
        .map(drop)
    }

    fn wait_replaced(&self, host: &Host) -> Result<()> {
        wait_until(&format!("{} to be replaced", host.name()), PATIENCE, || {
            let (voters, learners) = self.lab.members(self.lab.raft_leader()?)?;
            let whole = voters.len() == MEMBERS && learners.is_empty();
            if whole && !voters.iter().any(|voter| voter == host.name()) {
                return Ok(true);
            }
            bail!("voters {voters:?}, learners {learners:?}")
        })
        .map(drop)
    }
}

/// Sends SIGKILL to a unit's process. A unit that systemd is just restarting has no process for a moment.
fn kill(host: &Host, unit: &str) -> Result<()> {
    wait_until(
        &format!("{unit} of {} to be killed", host.name()),
        PATIENCE,
        || host.kill_process(unit, "KILL").map(|()| true),
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::{Operation, Order};

    #[test]
    fn an_order_follows_from_its_seed_and_leaves_out_what_wants_spares() {
        let first = |seed, hosts, count| {
            let mut order = Order::new(seed, hosts);
            (0..count).map(|_| order.next_one()).collect::<Vec<_>>()
        };
        assert_eq!(first(1, 5, 30), first(1, 5, 30));
        assert_ne!(first(1, 5, 30), first(2, 5, 30));
        let all = first(1, 5, 10);
        assert!(Operation::ALL.iter().all(|one| all.contains(one)), "{all:?}");
        let without = first(1, 3, 16);
        assert!(!without.contains(&Operation::Resize) && !without.contains(&Operation::ReplaceDead));
    }
}
