//! The certificate files of a host, as far as they decide whether its etcd starts.

use etcd_agent::model::{Assignment, TlsFinding};
use etcd_agent::ports::{DataRequest, Inspection};

use super::{Host, World};

/// An agent that restarts etcd has looked at the files at most this long ago: the checks before a restart take up to
/// three seconds (`agent/execute/restart.rs`), and each look of the loop some more.
const LOOKED_MS: u64 = 5000;

impl Host {
    /// What etcd's user finds in the files, if it is asked.
    pub fn tls_findings(&self, request: &DataRequest) -> Option<Vec<TlsFinding>> {
        let DataRequest::Inspect(Inspection { tls: true, .. }) = request else {
            return None;
        };
        let written: &Assignment = self.written.as_ref().or(self.assignment.as_ref())?;
        let transport = written.transport.as_ref()?;
        let find = |(serves, files): (_, &etcd_agent::model::TlsFiles)| TlsFinding {
            serves,
            files: files.clone(),
            trouble: self.tls.are_bad().then(|| "the key is not there".to_owned()),
        };
        Some(transport.files().map(find).collect())
    }
}

impl World {
    /// Somebody installs files with which etcd cannot work.
    pub fn install_bad_files(&mut self, host: usize) {
        let now = self.now;
        let files = &mut self.hosts[host].tls;
        files.changes += 1;
        files.bad_since.get_or_insert(now);
        self.tell(|w| format!("{} gets certificate files that do not work", w.hosts[host].name));
    }

    /// Rule 4: an agent takes no running etcd down that cannot come back, and gives no leave for it. `what`
    /// it does.
    pub(in crate::world) fn check_files(&mut self, host: usize, what: &str) {
        let files = self.hosts[host].tls;
        let since = files.bad_since.map_or(0, |at| self.now.saturating_sub(at));
        if since > LOOKED_MS && self.hosts[host].server.is_some() {
            let name = &self.hosts[host].name;
            let text = format!("{name} {what} with certificate files with which etcd cannot start");
            self.violate(4, text);
        }
    }
}
