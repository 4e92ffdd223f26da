//! What the servers ask the running agent, and the orders that it takes from operators.

mod alarm;
mod change_backup;
mod directives;
mod fresh;
mod handle;
mod leave;
mod listing;
mod picture;
mod quarantine;
mod reboot_lock;
mod refused;
mod request;
pub(super) mod size;
mod stop;
mod v2_keys;
