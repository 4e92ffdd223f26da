//! What runs outside the daemon: the oneshots apply (root), data (etcd's user) and verify, and the gate.

pub mod apply;
pub mod boot;
pub mod config_copy;
pub mod data;
mod dirs;
pub mod files;
pub mod gate;
pub mod journal;
pub mod loaded;
mod mounts;
pub mod process;
pub mod result;
pub mod roots;
mod selected;
mod settings;
pub mod verify;
pub mod wal;

pub use dirs::DataDirs;
pub use mounts::HeldBy;
