//! Over what etcd speaks with clients and with other members: plain HTTP or TLS.

use serde::{Deserialize, Serialize};

use super::{EtcdSpec, Spec, TlsFiles, TlsUse, are_tls};

/// Over what one start of etcd speaks. It differs from the configuration while the members move between plain
/// HTTP and TLS, one at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// The files with which it serves clients over TLS; `None`: plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<TlsFiles>,
    /// The files with which it connects to members over TLS; `None`: it reaches only members in plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<TlsFiles>,
    /// True if it listens for members over TLS, which needs `peer`. With `peer` alone it still listens in
    /// plain HTTP: etcd ignores the files for such a listener (`configurePeerListeners` in etcd's
    /// `embed/etcd.go`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer_listens: bool,
}

impl Transport {
    /// The transport that is configured.
    pub fn configured(etcd: &EtcdSpec) -> Self {
        Self {
            client: etcd.client_tls.clone(),
            peer: etcd.peer_tls.clone(),
            peer_listens: etcd.peer_tls.is_some(),
        }
    }

    /// The transport of a member that is listed under these URLs and starts with this configuration.
    pub fn at(etcd: &EtcdSpec, peer_urls: &[String]) -> Self {
        Self {
            peer_listens: etcd.peer_tls.is_some() && are_tls(peer_urls),
            ..Self::configured(etcd)
        }
    }

    /// The sets of files, and what each is for.
    pub fn files(&self) -> impl Iterator<Item = (TlsUse, &TlsFiles)> {
        let clients = self.client.iter().map(|files| (TlsUse::Clients, files));
        let members = self.peer.iter().map(|files| (TlsUse::Members, files));
        clients.chain(members)
    }

    /// The same without the files.
    pub fn over(&self) -> Over {
        Over {
            client_tls: self.client.is_some(),
            dials_tls: self.peer.is_some(),
            listens_tls: self.peer_listens,
        }
    }

    /// The spec with the URLs and the files of this transport.
    #[must_use]
    pub fn put_in(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        spec.etcd.client_tls.clone_from(&self.client);
        spec.etcd.peer_tls = self.peer.clone().filter(|_| self.peer_listens);
        spec
    }
}

/// Over what an etcd speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// It serves clients over TLS.
    pub client_tls: bool,
    /// It can connect to members over TLS.
    pub dials_tls: bool,
    /// It listens for members over TLS.
    pub listens_tls: bool,
}

/// Over what the API of this node's agent speaks, as the agent recorded it when it began to serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiRecord {
    /// True for TLS.
    pub tls: bool,
}

/// What an agent reports of the transport of its etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportView {
    /// As its node is configured.
    pub configured: Over,
    /// As it is assigned for the next start; `None` without an assignment.
    pub assigned: Option<Over>,
    /// As the etcd process that runs was started; `None` if none runs, or if that is not known.
    pub runs: Option<Over>,
    /// As it is to be after the next step that all members permit; `None` without an assignment.
    pub next: Option<Over>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_transport_is_an_empty_object() {
        assert_eq!(serde_json::to_string(&Transport::default()).unwrap(), "{}");
    }
}
