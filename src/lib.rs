//! `etcd-agent`: a Kubernetes-free, systemd-native node agent for etcd.
//!
//! A pure planner (`plan`) with ports and adapters around it, and one direction of flow:
//! observe → plan → execute. See `docs/architecture.md`.

#[macro_use]
pub mod mutant;

pub mod adapters;
pub mod agent;
pub mod backup;
pub(crate) mod bolt;
pub mod cli;
pub mod config;
pub mod etcd_versions;
pub mod genesis;
pub mod http;
pub mod model;
pub mod paths;
pub mod plan;
pub mod ports;
pub mod render;
pub mod telemetry;
pub mod unit;
