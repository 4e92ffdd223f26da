//! What runs outside the daemon: the oneshots apply (root), data (etcd's user) and verify, and the gate.

pub mod apply;
pub mod boot;
pub mod data;
pub mod files;
pub mod gate;
pub mod journal;
pub mod loaded;
pub mod result;
mod roots;
mod selected;
mod settings;
pub mod verify;
pub mod wal;
