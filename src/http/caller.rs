//! The client of a connection, and the nodes that it may act for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::reply::Refused;
use crate::adapters::tls::CertificateNames;
use crate::model::NodeName;

/// The client of a connection. Each request on the connection carries it as an extension.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Its address; `None` on a Unix socket.
    pub(super) address: Option<IpAddr>,
    /// What its verified certificate names; `None` without TLS.
    pub(super) names: Option<Arc<CertificateNames>>,
}

/// Decides which client may send messages of which node.
pub(super) struct Access {
    nodes: BTreeMap<NodeName, String>,
    secure: bool,
}

impl Access {
    pub(super) fn new(nodes: BTreeMap<NodeName, String>, secure: bool) -> Self {
        Self { nodes, secure }
    }

    /// Accepts a message of `node` only if the client's certificate names that node or its configured
    /// address. One host's stolen key thus cannot vote for the other nodes.
    pub(super) fn speaks_for(&self, caller: &Caller, node: &NodeName) -> Result<(), Refused> {
        let Some(address) = self.nodes.get(node) else {
            return Err(Refused::forbidden(format!(
                "{node} is not one of this cluster's nodes here (cluster.nodes)"
            )));
        };
        if !self.secure {
            return Ok(());
        }
        match &caller.names {
            Some(names) if names.covers(node.as_str()) || names.covers(address) => Ok(()),
            Some(names) => Err(Refused::forbidden(format!(
                "the message is from {node}, but the certificate names {}, neither {node} nor {address}",
                names.text()
            ))),
            None => Err(Refused::forbidden("no certificate")),
        }
    }

    /// Accepts the caller if it is any of the cluster's nodes.
    pub(super) fn is_a_node(&self, caller: &Caller) -> Result<(), Refused> {
        if !self.secure
            || self
                .nodes
                .keys()
                .any(|node| self.speaks_for(caller, node).is_ok())
        {
            return Ok(());
        }
        let names = caller
            .names
            .as_ref()
            .map_or_else(|| "nothing".to_owned(), |names| names.text());
        Err(Refused::forbidden(format!(
            "the certificate names {names}, none of this cluster's nodes (cluster.nodes)"
        )))
    }
}
