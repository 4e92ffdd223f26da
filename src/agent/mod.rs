//! The loop: observe → plan → execute.

mod api;
mod build;
mod context;
mod execute;
mod gate;
mod jobs;
mod observe;
mod ports;
mod record;
mod run;
mod run_loop;
mod standalone_backup;
mod state;
mod watchdog;

pub use context::Agent;
pub use ports::{Backups, Ports};
pub use run::run;
pub use standalone_backup::{StandaloneBackup, run_standalone_backup};
pub use state::version::Version;
