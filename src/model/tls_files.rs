//! What was found in the certificate files with which etcd may be started.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fact, SteadyMs, TlsFiles};

/// With whom etcd speaks by means of a set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsUse {
    /// With clients: `[etcd.client_tls]`.
    Clients,
    /// With other members: `[etcd.peer_tls]`. etcd uses this certificate as server and as client.
    Members,
}

impl TlsUse {
    /// The table of the configuration.
    pub fn table(self) -> &'static str {
        match self {
            Self::Clients => "etcd.client_tls",
            Self::Members => "etcd.peer_tls",
        }
    }
}

/// What was found in one set of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFinding {
    /// What they are for.
    pub serves: TlsUse,
    /// The files.
    pub files: TlsFiles,
    /// Why an etcd that is started with them cannot work, and what to do, in one line; `None` if nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What is known of the files with which etcd may be started on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsView {
    /// True if they are to be read: they were not yet, or have changed since.
    pub unread: bool,
    /// What was found in each set; absent if they were not read.
    pub found: Fact<Vec<TlsFinding>>,
    /// When they were read.
    #[serde(default)]
    pub at: SteadyMs,
}

impl Default for TlsView {
    fn default() -> Self {
        Self {
            unread: false,
            found: Fact::Absent,
            at: SteadyMs::default(),
        }
    }
}

impl TlsView {
    /// Files that were read longer ago are read again before etcd is stopped: a certificate expires without a
    /// change.
    pub const LASTS: Duration = Duration::from_mins(10);

    /// True if the files were read too long ago to stop etcd.
    pub fn is_old(&self, now: SteadyMs) -> bool {
        self.found.known().is_some() && now.since(self.at) >= Self::LASTS
    }

    /// Why a running etcd must not be stopped with these files: what was found in them, or that they were not
    /// read yet.
    pub fn objection(&self, serves: TlsUse, files: &TlsFiles) -> Option<String> {
        let unread = || format!("the files of [{}] are read first, as etcd's user", serves.table());
        if self.found.known().is_none() {
            return self.unread.then(unread);
        }
        match self.finding(serves, files) {
            Some(one) => one.trouble.clone(),
            None => Some(unread()),
        }
    }

    /// What was found in these files, if they were read.
    pub fn finding(&self, serves: TlsUse, files: &TlsFiles) -> Option<&TlsFinding> {
        let mut found = self.found.known()?.iter();
        found.find(|one| one.serves == serves && one.files == *files)
    }
}
