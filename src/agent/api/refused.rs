//! How an order is refused.

use std::fmt::Display;

use crate::ports::PortError;

/// The error of an order that is refused for this reason.
pub(super) fn refused(why: impl Display) -> PortError {
    PortError::Permanent(format!("refused: {why}"))
}
