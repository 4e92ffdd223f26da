//! `etcd-agent`: a Kubernetes-free, systemd-native node agent for etcd.
//!
//! A pure planner (`plan`) with ports and adapters around it, and one direction of flow:
//! observe → plan → execute. See `docs/architecture.md`.

// Without `node`, what only the gated modules use is unused.
#![cfg_attr(not(feature = "node"), allow(dead_code, unused_imports, unreachable_pub))]

#[macro_use]
pub mod mutant;

#[cfg(feature = "node")]
pub mod adapters;
pub mod agent;
pub mod backup;
pub(crate) mod bolt;
#[cfg(feature = "node")]
pub mod cli;
#[cfg(feature = "node")]
pub mod config;
pub mod etcd_versions;
pub mod genesis;
#[cfg(feature = "node")]
pub mod http;
pub mod model;
#[cfg(feature = "node")]
pub mod page;
pub mod paths;
pub mod plan;
pub mod ports;
pub mod render;
pub mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(feature = "node")]
pub mod unit;
