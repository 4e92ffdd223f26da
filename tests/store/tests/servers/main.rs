//! Tests of the agent's code for stores and etcd against real servers, in this process and without hosts. All
//! tests are one program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_network;
mod calendar;
mod etcd_adapter;
mod increments;
mod manager;
mod marks;
mod roles;
mod standalone_backup;
mod store_check;
mod store_copy;
mod store_encrypted;
mod store_faults;
mod store_options;
mod store_s3;
mod timeline;
mod verify;
