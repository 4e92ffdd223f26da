//! Logging with journald fields, and metrics.

mod counters;
pub mod message_ids;
#[cfg(feature = "node")]
mod metrics;
#[cfg(feature = "node")]
mod process;
#[cfg(feature = "node")]
mod setup;

pub use counters::{ActionResult, BackupKind, Counters, Success};
#[cfg(feature = "node")]
pub use metrics::{Format, exposition};
#[cfg(feature = "node")]
pub use process::Process;
#[cfg(feature = "node")]
pub use setup::{Output, init, log_filter, set_log_level};
