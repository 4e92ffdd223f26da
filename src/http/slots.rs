//! Limits the number of connections of each kind of client. Unauthenticated clients cannot use up the slots
//! of authenticated ones. No client can use up the slots of the cluster's own nodes.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::limits::Limits;

/// The connections of one server.
pub(super) struct Slots {
    limits: Limits,
    open: Mutex<Open>,
    /// Notified when a slot becomes free.
    freed: Notify,
}

#[derive(Default)]
struct Open {
    /// Addresses of the cluster's nodes, which have their own slots.
    nodes: BTreeSet<IpAddr>,
    /// Connections of clients that are not authenticated yet.
    unproved: usize,
    /// Connections of clients that are authenticated, except those of the cluster's nodes.
    served: usize,
    by_origin: HashMap<Origin, usize>,
}

/// The origin of a connection. Connections of the same origin are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    /// This host, over a Unix socket.
    Host,
    /// One of the cluster's nodes.
    Node(IpAddr),
    /// An IPv4 address, or an IPv6 network of 64 bits, because one client can use all of its addresses.
    Network(IpAddr),
}

/// The pool that a slot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Reserved,
    Unproved,
    Served,
}

/// The slot of an open connection. Dropping it frees the slot.
pub(super) struct Slot {
    slots: Arc<Slots>,
    origin: Origin,
    pool: Pool,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the addresses of the cluster's nodes.
    pub(super) fn know(&self, nodes: BTreeSet<IpAddr>) {
        self.open().nodes = nodes;
    }

    /// Takes a slot for a connection from this address. `proved`: the client is authenticated already.
    pub(super) fn take(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        proved: bool,
    ) -> Result<Slot, &'static str> {
        let mut open = self.open();
        let origin = match address {
            None => Origin::Host,
            Some(address) if open.nodes.contains(&address) => Origin::Node(address),
            Some(address) => Origin::Network(network(address)),
        };
        let pool = match origin {
            Origin::Node(_) => Pool::Reserved,
            _ if proved => Pool::Served,
            _ => Pool::Unproved,
        };
        self.has_room(&open, pool)?;
        let count = open.by_origin.entry(origin).or_insert(0);
        if *count >= self.limits.connections_per_address {
            return Err("too many connections from this address");
        }
        *count += 1;
        open.count(pool, 1);
        drop(open);
        Ok(Slot {
            slots: self.clone(),
            origin,
            pool,
        })
    }

    /// Waits for a free slot for unauthenticated clients. Connections that are not accepted keep their place
    /// in the socket's queue.
    pub(super) async fn room(&self) {
        while self.has_room(&self.open(), Pool::Unproved).is_err() {
            self.freed.notified().await;
        }
    }

    fn has_room(&self, open: &Open, pool: Pool) -> Result<(), &'static str> {
        match pool {
            Pool::Unproved if open.unproved >= self.limits.unproved => Err("too many pending handshakes"),
            Pool::Served if open.served >= self.limits.connections => Err("too many connections"),
            _ => Ok(()),
        }
    }
}

impl Open {
    fn count(&mut self, pool: Pool, by: isize) {
        match pool {
            Pool::Reserved => {}
            Pool::Unproved => self.unproved = self.unproved.saturating_add_signed(by),
            Pool::Served => self.served = self.served.saturating_add_signed(by),
        }
    }
}

impl Slot {
    /// Moves the slot of a client that is now authenticated to the pool of authenticated clients.
    pub(super) fn verify_restore(&mut self) -> Result<(), &'static str> {
        if self.pool != Pool::Unproved {
            return Ok(());
        }
        let mut open = self.slots.open();
        self.slots.has_room(&open, Pool::Served)?;
        open.count(Pool::Unproved, -1);
        open.count(Pool::Served, 1);
        drop(open);
        self.pool = Pool::Served;
        self.slots.freed.notify_one();
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.open();
        open.count(self.pool, -1);
        if let Some(count) = open.by_origin.get_mut(&self.origin) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.by_origin.remove(&self.origin);
            }
        }
        drop(open);
        self.slots.freed.notify_one();
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn slots() -> Arc<Slots> {
        Slots::new(Limits {
            connections: 3,
            unproved: 2,
            connections_per_address: 2,
            ..Limits::peers()
        })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn f07_strangers_take_no_slot_of_those_who_are_known() {
        let slots = slots();
        slots.know(BTreeSet::from([address("10.0.0.1")]));
        let mut first = slots.take(Some(address("10.0.0.9")), false).unwrap();
        let _second = slots.take(Some(address("10.0.0.8")), false).unwrap();
        assert!(
            slots.take(Some(address("10.0.0.7")), false).is_err(),
            "two clients are not authenticated yet"
        );
        let _node = slots.take(Some(address("10.0.0.1")), false).unwrap();
        first.verify_restore().unwrap();
        let _third = slots.take(Some(address("10.0.0.7")), false).unwrap();
        // A node still has its own slots when all slots of other clients are taken.
        let _kept = [slots.take(None, true).unwrap(), slots.take(None, true).unwrap()];
        assert!(slots.take(None, true).is_err());
        assert!(slots.take(Some(address("10.0.0.6")), true).is_err());
        let again = slots.take(Some(address("10.0.0.1")), false).unwrap();
        assert!(
            slots.take(Some(address("10.0.0.1")), false).is_err(),
            "a node has no more than its own slots"
        );
        drop((again, first));
        assert!(
            slots.take(Some(address("10.0.0.6")), true).is_ok(),
            "a slot is free again"
        );
        assert!(slots.take(Some(address("10.0.0.1")), false).is_ok());
    }

    #[test]
    fn f07_a_network_of_ipv6_counts_as_one() {
        let slots = slots();
        let _first = slots.take(Some(address("2001:db8::1")), false).unwrap();
        let _second = slots.take(Some(address("2001:db8::2:1")), true).unwrap();
        assert!(slots.take(Some(address("2001:db8::3")), true).is_err());
        assert!(slots.take(Some(address("2001:db8:0:1::1")), true).is_ok());
    }
}
