//! The operations on the cluster while clients write, and their order.

use crate::random::Random;

/// The number of members, except while the cluster is resized.
pub(super) const MEMBERS: usize = 3;

/// The number of members while the cluster is larger.
pub(super) const LARGER: usize = 5;

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
