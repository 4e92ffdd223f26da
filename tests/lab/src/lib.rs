//! The lab: real systemd hosts in containers, a network with faults, a real S3 server, real etcd.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use etcd_agent_lab::Lab;
//! let lab = Lab::builder("s02").hosts(3).etcd("3.5.35").boot()?;
//! lab.host(1)?.sh("etcd --version")?.ok()?;
//! lab.passed(); // else the journals are kept in target/lab-logs
//! # Ok(()) }
//! ```
//!
//! Everything that a lab makes carries its id and is removed when the [`Lab`] is dropped. If its process was
//! killed, the next lab removes it.

mod browser;
mod builder;
mod by_hand;
mod cache;
mod certs;
mod cgroup;
mod client;
mod cmd;
mod config;
mod daemon;
mod debian_etcd;
mod etcd;
mod faults;
mod golang;
mod host;
mod lab;
mod lintian;
mod load;
mod machine;
mod managed;
mod net;
mod objects;
mod outside;
mod package;
mod place;
mod prepare;
mod prometheus;
mod random;
mod robust;
mod rpm;
mod s3;
mod slow;
mod sweep;
mod tree;
mod units;
mod values;
mod wait;

pub use browser::Browser;
pub use builder::Builder;
pub use certs::{Authority, Pair};
pub use cmd::{Cmd, Output};
pub use config::{AgentConfig, Store, built_deb};
pub use etcd::{EtcdProcess, EtcdState, ask_etcd, etcd_metric};
pub use faults::{Fault, Faults, Seen, bad_weather};
pub use golang::{
    ETCD_DEFAULT, ETCD_VERSIONS, MINIO_ENV, age as age_program, etcd as etcd_programs,
    minio as minio_program, versitygw as versitygw_program,
};
pub use host::Host;
pub use lab::{Lab, PATIENCE};
pub use lintian::lintian;
pub use load::{Load, Written};
pub use managed::{Manager, molecule};
pub use net::{Net, OUTSIDE, Shape};
pub use objects::{Objects, ObjectsWritten};
pub use place::S3Server;
pub use prepare::{prepare, prepare_demo};
pub use prometheus::PROMETHEUS;
pub use random::Random;
pub use robust::Robust;
pub use rpm::{agent_rpm, system_rpm};
pub use s3::S3;
pub use slow::Slow;
pub use sweep::sweep;
pub use tree::Suite;
pub use units::UnitState;
pub use wait::{wait_for, wait_until};
