//! Logging with journald fields, and metrics.

pub mod message_ids;
mod metrics;
mod setup;

pub use metrics::{Counters, Success, exposition};
pub use setup::{Output, init};
