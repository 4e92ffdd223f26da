//! The node, the cluster's nodes and size, and etcd's flags.

use std::collections::BTreeMap;

use super::Builder;
use crate::config::field::Table;
use crate::config::field_types::host;
use crate::config::fields::{CLUSTER_FORCE, CLUSTER_NODES, CLUSTER_SIZE, ETCD_SETTINGS, NODE_NAME};
use crate::config::location::SourceLocation;
use crate::config::problem::Problem;
use crate::config::settings::StoreSettings;
use crate::config::tree::Kind;
use crate::model::{MOST_NODES, NodeName, SizeSource, unwise_size};

impl<'a> Builder<'a> {
    pub(super) fn node(&mut self, host_name: &str) -> Option<NodeName> {
        if let Some(name) = self.optional(&NODE_NAME) {
            return Some(name);
        }
        match NodeName::new(host_name) {
            Ok(name) => Some(name),
            Err(error) => {
                self.wrong_host_name(
                    NODE_NAME.key,
                    format!("the host name cannot be the node name: {error}; set node.name"),
                );
                None
            }
        }
    }

    pub(super) fn nodes(&mut self, node: &NodeName) -> BTreeMap<NodeName, String> {
        let mut nodes = BTreeMap::new();
        let mut seen: BTreeMap<String, NodeName> = BTreeMap::new();
        let mut names: BTreeMap<String, NodeName> = BTreeMap::new();
        for (name, address, place) in self.entries(&CLUSTER_NODES) {
            if let Some(other) = names.insert(name.as_str().to_lowercase(), name.clone()) {
                let text =
                    format!("differs from {other} only in upper and lower case: give this node another name");
                self.problems
                    .push(Problem::at(place, format!("cluster.nodes.{name}"), text));
            }
            if let Some(other) = seen.insert(host(&address), name.clone()) {
                let text = format!("has the address {address:?} of {other}: each node needs its own");
                self.problems
                    .push(Problem::at(place, format!("cluster.nodes.{name}"), text));
            }
            nodes.insert(name, address);
        }
        if nodes.len() > MOST_NODES {
            let text = format!("has {} nodes, expected at most {MOST_NODES}", nodes.len());
            self.wrong(CLUSTER_NODES.key, text);
        }
        if self.is_inconclusive(CLUSTER_NODES.key) || self.is_inconclusive(NODE_NAME.key) {
            nodes.entry(node.clone()).or_insert_with(|| node.to_string());
        } else if nodes.is_empty() {
            nodes.insert(node.clone(), node.to_string());
        } else if !nodes.contains_key(node) {
            let names: Vec<&str> = nodes.keys().map(NodeName::as_str).collect();
            let text = format!(
                "this node is {node:?}, which is not among them ({}): add it, or set node.name",
                names.join(", "),
                node = node.as_str()
            );
            if self.optional(&NODE_NAME).is_some() {
                self.wrong(CLUSTER_NODES.key, text);
            } else {
                self.wrong_host_name(CLUSTER_NODES.key, text);
            }
        }
        nodes
    }

    pub(super) fn size(&mut self, nodes: usize) -> usize {
        let default = if nodes >= 3 { 3 } else { 1 };
        let Some(size) = self.optional(&CLUSTER_SIZE) else {
            return default;
        };
        let force = self.read(&CLUSTER_FORCE);
        if let Some(why) = unwise_size(size)
            && !force
            && !self.is_inconclusive(CLUSTER_FORCE.key)
        {
            self.wrong(
                CLUSTER_SIZE.key,
                format!("found {size}, {why}; cluster.force = true overrides"),
            );
        }
        if size > nodes && !self.is_inconclusive(CLUSTER_NODES.key) {
            self.wrong(
                CLUSTER_SIZE.key,
                format!("found {size}, but cluster.nodes has {nodes}: name at least {size} nodes"),
            );
        }
        size
    }

    /// A size in a configuration file takes precedence. Otherwise a shared store holds the size, if there is
    /// one.
    pub(super) fn size_source(&self, store: Option<&StoreSettings>) -> SizeSource {
        match self.value(CLUSTER_SIZE.key).map(|value| value.at.as_ref()) {
            Some(at) => SizeSource::Config {
                file: at.map(|at| at.file.to_path_buf()).unwrap_or_default(),
                line: at.map_or(0, |at| at.line),
            },
            None if store.is_some_and(|store| store.shared) => SizeSource::Store { said: None },
            None => SizeSource::Default,
        }
    }

    pub(super) fn etcd_settings(&mut self) -> BTreeMap<String, String> {
        let entries = self.entries(&ETCD_SETTINGS).into_iter();
        entries.map(|(flag, value, _)| (flag, value)).collect()
    }

    /// The entries of a table with arbitrary keys, with their locations.
    fn entries<K, T>(&mut self, table: &Table<K, T>) -> Vec<(K, T, Option<&'a SourceLocation>)> {
        let Some(Kind::Table(entries)) = self.value(table.key).map(|value| &value.kind) else {
            return Vec::new();
        };
        let mut parsed = Vec::new();
        for (key, value) in entries {
            match (table.parse)(key, value) {
                Ok((key, content)) => parsed.push((key, content, value.at.as_ref())),
                Err(text) => self.wrong(table.key, text),
            }
        }
        parsed
    }
}
