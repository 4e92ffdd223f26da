//! One round: operations on a cluster while clients write.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::logs::Logs;
use super::operation::{LARGER, MEMBERS, Operation, Order};
use crate::host::Host;
use crate::lab::{Lab, PATIENCE};
use crate::random::Random;
use crate::wait::{wait_for, wait_until};

/// A formed cluster, and the logs of members that are kept.
pub(super) struct Round<'a> {
    pub(super) lab: &'a Lab,
    pub(super) logs: Logs,
}

impl Round<'_> {
    /// Runs the operations one after the other. Each begins when the cluster has recovered. At most this
    /// number begins, none after the duration. `whom` chooses the host of each.
    pub(super) fn operate(
        &self,
        mut order: Order,
        mut whom: Random,
        operations: usize,
        duration: Duration,
    ) -> Result<()> {
        let begun = Instant::now();
        let since = || begun.elapsed().as_secs_f64();
        let mut done = 0;
        while done < operations && begun.elapsed() < duration {
            let operation = order.next_one();
            let members = self.members()?;
            let host = *whom.choose(&members).context("there is no member")?;
            eprintln!("robust: {:>5.1} s {operation:?}, {}", since(), host.name());
            self.carry_out(operation, host)
                .and_then(|()| self.lab.wait_healthy(MEMBERS, PATIENCE))
                .with_context(|| format!("{operation:?}, {}", host.name()))?;
            done += 1;
        }
        eprintln!("robust: {:>5.1} s {done} operations are done", since());
        Ok(())
    }

    /// The hosts of the members, in order.
    fn members(&self) -> Result<Vec<&Host>> {
        let (voters, _) = self.lab.members(self.lab.raft_leader()?)?;
        let hosts = self.lab.hosts().iter();
        Ok(hosts
            .filter(|host| voters.iter().any(|voter| voter == host.name()))
            .collect())
    }

    /// Carries out an operation on `host`, and waits until it is done.
    fn carry_out(&self, operation: Operation, host: &Host) -> Result<()> {
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
