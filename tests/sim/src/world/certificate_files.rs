//! The certificate files of a host, as far as they count.

/// The files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Counts how often they were replaced.
    pub changes: u32,
    /// The authorities in them, by a number.
    pub authorities: u32,
    /// Since when etcd cannot work with them.
    pub bad_since: Option<u64>,
}

impl CertificateFiles {
    /// People install files that work.
    pub fn mend(&mut self) {
        if self.bad_since.take().is_some() {
            self.changes += 1;
        }
    }

    /// True while etcd cannot work with them.
    pub fn are_bad(&self) -> bool {
        self.bad_since.is_some()
    }
}
