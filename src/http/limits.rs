//! The limits that a server sets to its clients.

use std::time::Duration;

/// Bounds of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of authenticated clients, except the cluster's nodes, which have slots of their own.
    pub connections: usize,
    /// Open connections of clients that are not authenticated yet: their TLS handshake is running, or the
    /// agent is asking systemd about the process.
    pub unproved: usize,
    /// Open connections from one address, or from one IPv6 network of 64 bits.
    pub connections_per_address: usize,
    /// Concurrent requests that write to disk.
    pub writes: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for a request's header; also how long a connection may idle between two requests.
    pub header: Duration,
    /// Time for a request's body.
    pub body: Duration,
    /// Size of a request's body.
    pub body_bytes: usize,
    /// Longest wait of a long poll.
    pub poll: Duration,
    /// Age at which the server begins to close a connection gracefully. It cuts the connection `drain` later.
    pub age: Duration,
    /// Time for a request in progress to finish during a graceful close.
    pub drain: Duration,
}

/// The maximum size of a request's body, in every server.
pub(super) const BODY_BYTES: usize = 256 * 1024;
/// The time within which a request's body must arrive, in every server.
pub(super) const BODY_TIME: Duration = Duration::from_secs(5);

impl Limits {
    /// The peer API: each peer needs a connection for its long poll and a few for calls.
    pub fn peers() -> Self {
        Self {
            connections: 64,
            unproved: 32,
            connections_per_address: 16,
            writes: 32,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            body: BODY_TIME,
            body_bytes: BODY_BYTES,
            poll: Duration::from_secs(25),
            age: Duration::from_mins(10),
            drain: Duration::from_secs(30),
        }
    }

    /// The admin API: root and the members of one group.
    pub fn admin() -> Self {
        Self {
            connections: 32,
            connections_per_address: 32,
            ..Self::peers()
        }
    }

    /// Metrics and FleetLock: a client or two.
    pub fn metrics() -> Self {
        Self {
            connections: 16,
            connections_per_address: 8,
            ..Self::peers()
        }
    }

    /// The gate: only etcd.service asks, and rarely more than once.
    pub fn gate() -> Self {
        Self {
            connections: 8,
            unproved: 16,
            connections_per_address: 24,
            header: Duration::from_secs(2),
            age: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            ..Self::peers()
        }
    }
}
