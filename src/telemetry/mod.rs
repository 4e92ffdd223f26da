//! Logging with journald fields, and metrics.

mod counters;
pub mod message_ids;
mod metrics;
mod setup;

pub use counters::{Counters, Success};
pub use metrics::exposition;
pub use setup::{Output, init, log_filter, set_log_level};
