//! Why certificate files cannot be used.

/// A certificate file that cannot be used: which one, and why. One line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);
