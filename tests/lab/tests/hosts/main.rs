//! Whole hosts: real systemd, real etcd, a real S3 server. All tests are one program: it is linked once, and
//! the tests of different files run concurrently.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ansible;
mod auth;
mod authorities;
mod backups;
mod common;
mod corruption;
mod crashes;
mod damage;
mod env_files;
mod faults;
mod forming;
mod full_disk;
mod liar;
mod log_elsewhere;
mod loss;
mod managed;
mod manager_store;
mod membership;
mod model;
mod moves;
mod needrestart;
mod package;
mod partitions;
mod puppet;
mod readme;
mod reboots;
mod reload;
mod replaced_etcds;
mod resizing;
mod robust;
mod roots;
mod rpm;
mod selftest;
mod settings;
mod site_lost;
mod situations;
mod size_store;
mod space;
mod stops;
mod strangers;
mod upgrades;
mod verbs;
mod verify;
mod version_table;
