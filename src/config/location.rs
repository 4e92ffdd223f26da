//! A file and a line in it.

use std::path::Path;
use std::sync::Arc;

/// Where a key is written in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceLocation {
    pub(super) file: Arc<Path>,
    /// The line number, from 1.
    pub(super) line: usize,
}
