//! Where a member's data and its write-ahead log are.

use std::path::{Path, PathBuf};

use crate::model::{EtcdSpec, GateState};

/// The data directory, and the directory of the log if that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirs {
    data: PathBuf,
    wal: Option<PathBuf>,
}

impl DataDirs {
    /// These directories; `wal` is `None` for a log in the data directory.
    pub fn new(data: PathBuf, wal: Option<PathBuf>) -> Self {
        Self { data, wal }
    }

    /// As configured.
    pub fn of(etcd: &EtcdSpec) -> Self {
        Self::new(etcd.data_dir.clone(), etcd.wal_dir.clone())
    }

    /// As assigned.
    pub fn of_gate(gate: &GateState) -> Self {
        Self::new(gate.data_dir.clone(), gate.wal_dir.clone())
    }

    /// etcd's `data-dir`.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// etcd's `wal-dir`, if it is set.
    pub fn wal(&self) -> Option<&Path> {
        self.wal.as_deref()
    }

    /// Where etcd has the log.
    pub fn log(&self) -> PathBuf {
        self.wal.clone().unwrap_or_else(|| self.own_log())
    }

    /// Where etcd has the log if `wal-dir` is not set.
    pub fn own_log(&self) -> PathBuf {
        self.member().join("wal")
    }

    /// etcd's directory of the member, with all of its data.
    pub fn member(&self) -> PathBuf {
        self.data.join("member")
    }

    /// The directory of the snapshots of raft.
    pub fn snap(&self) -> PathBuf {
        self.member().join("snap")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.snap().join("db")
    }
}
