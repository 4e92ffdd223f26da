//! What the page shows.

use crate::model::{AdminStatus, Event, RecentBackup, UnixMs};

/// The state of the cluster as this agent last saw it.
#[derive(Debug, Clone)]
pub struct Picture {
    /// As `etcd-agent status` shows it.
    pub status: AdminStatus,
    /// The events of this agent, oldest first.
    pub events: Vec<Event>,
    /// The newest backups in the store, oldest first.
    pub backups: Vec<RecentBackup>,
    /// How often the page reloads itself, in seconds; `None` if it does not.
    pub refresh: Option<u16>,
}

impl Picture {
    /// The time of the picture, by this node's clock.
    pub fn now(&self) -> UnixMs {
        self.status.node.now
    }
}
