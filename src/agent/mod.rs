//! The loop: observe → plan → execute.

mod api;
#[cfg(feature = "node")]
mod build;
mod context;
mod execute;
mod gate;
mod jobs;
mod observe;
mod ports;
mod record;
#[cfg(feature = "node")]
mod run;
mod run_loop;
#[cfg(feature = "node")]
mod standalone_backup;
mod state;
mod watchdog;

pub use context::Agent;
pub use ports::{Backups, Ports};
#[cfg(feature = "node")]
pub use run::run;
#[cfg(feature = "node")]
pub use standalone_backup::{StandaloneBackup, run_standalone_backup};
pub use state::version::Version;
