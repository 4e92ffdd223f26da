//! Where a failure of a backup came from: etcd, the store or this host.

/// Where it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// etcd did not answer, or did not send a whole snapshot.
    Etcd,
    /// The store.
    Store,
    /// This host: no room, no thread, no throw-away etcd.
    Host,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::Etcd, Self::Store, Self::Host];

    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Store => "store",
            Self::Host => "host",
        }
    }
}
