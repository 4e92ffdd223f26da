//! The certificates that etcd uses.

use std::sync::Arc;

use etcd_agent::model::UnixMs;
use etcd_agent::ports::{Certificates, EtcdCertificates};

use super::Seat;

/// The certificates of one host.
pub struct Files(pub Arc<Seat>);

impl Certificates for Files {
    fn not_after(&self) -> Option<UnixMs> {
        None
    }
}

impl EtcdCertificates for Files {
    fn authorities(&self) -> Option<String> {
        Some(self.0.sim.world().hosts[self.0.host].tls.authorities.to_string())
    }
}
