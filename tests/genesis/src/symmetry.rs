//! Nodes that never propose are interchangeable: states that differ only in their names count as one.

use std::collections::BTreeMap;

use etcd_agent::model::{Incarnation, NodeName};

/// The node's name. Nodes are counted from 0.
pub(crate) fn name(node: usize) -> NodeName {
    NodeName::new(format!("n{}", node + 1)).unwrap()
}

/// The identity of a node's `life`th memory, counted from 0. Later memories sort higher, and no two nodes
/// share an identity.
pub(crate) fn incarnation(node: usize, life: usize) -> Incarnation {
    Incarnation::new(format!("{life:016x}{node:016x}")).unwrap()
}

/// A permutation of the nodes and of all their names.
#[derive(Debug, Clone)]
pub(crate) struct Renaming {
    /// The new number of each node.
    pub(crate) to: Vec<usize>,
    reports: BTreeMap<String, String>,
}

impl Renaming {
    fn new(to: Vec<usize>, lives: usize) -> Self {
        let mut reports = BTreeMap::new();
        for (from, to) in to.iter().enumerate() {
            reports.insert(name(from).to_string(), name(*to).to_string());
            for life in 0..lives {
                reports.insert(
                    incarnation(from, life).to_string(),
                    incarnation(*to, life).to_string(),
                );
            }
        }
        Self { to, reports }
    }

    /// Renames nodes in JSON. Only whole strings are names.
    pub(crate) fn apply(&self, json: &str) -> String {
        let parts: Vec<&str> = json
            .split('"')
            .map(|part| self.reports.get(part).map_or(part, String::as_str))
            .collect();
        parts.join("\"")
    }
}

/// Every permutation of `nodes` that keeps the first `fixed` nodes in place, except the identity.
pub(crate) fn renamings(nodes: usize, fixed: usize, lives: usize) -> Vec<Renaming> {
    let mut orders = vec![Vec::new()];
    for at in 0..nodes {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let free: Vec<usize> = if at < fixed {
                    vec![at]
                } else {
                    (fixed..nodes).filter(|n| !order.contains(n)).collect()
                };
                free.into_iter().map(move |next| {
                    let mut order = order.clone();
                    order.push(next);
                    order
                })
            })
            .collect();
    }
    orders
        .into_iter()
        .filter(|order| !order.is_sorted())
        .map(|order| Renaming::new(order, lives))
        .collect()
}
