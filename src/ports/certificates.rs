//! The certificates of this node.

use crate::model::UnixMs;

/// Certificates that expire.
pub trait Certificates: Send + Sync {
    /// The earliest expiry of these certificates, their chains and their authorities, in milliseconds since
    /// 1970. `None` if none of them can be read.
    fn not_after(&self) -> Option<UnixMs>;
    /// What is wrong with the files, in one line, if this process itself works with them. `None` if nothing is
    /// known to be wrong.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// The certificates that etcd is started with.
pub trait EtcdCertificates: Certificates {
    /// A digest of all authorities. `None` without TLS, if one of the files cannot be read, and if the authorities in
    /// a set have not issued the certificate next to them: an etcd that trusted only them could not join the others.
    fn authorities(&self) -> Option<String>;
}
