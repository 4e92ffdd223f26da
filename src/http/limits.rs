//! What a server grants to whoever connects.

use std::time::Duration;

/// Bounds of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Open connections from one address.
    pub connections_per_address: usize,
    /// Requests under way that write to disk.
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
    /// Age at which a connection is asked to close; it is cut `drain` later.
    pub age: Duration,
    /// Time to finish what is under way when a connection is asked to close.
    pub drain: Duration,
}

/// A request's body is at most this, in every server.
pub(super) const BODY_BYTES: usize = 256 * 1024;
/// A request's body must have arrived after this, in every server.
pub(super) const BODY_TIME: Duration = Duration::from_secs(5);

impl Limits {
    /// The peer API: each peer needs a connection for its long poll and a few for calls.
    pub fn peers(nodes: usize) -> Self {
        Self {
            connections: 64 + 4 * nodes,
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
            ..Self::peers(0)
        }
    }

    /// The gate: anybody on the host may ask, so it gets little.
    pub fn gate() -> Self {
        Self {
            connections: 8,
            connections_per_address: 8,
            header: Duration::from_secs(2),
            age: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            ..Self::peers(0)
        }
    }
}
