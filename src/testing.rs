//! What tests of several rooms share.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

/// Compares a file of the sources with what it must be, or writes it.
pub(crate) fn kept(path: &Path, made: &str) {
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, made).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == made,
        "{} is not what the sources make; run: INSTA_UPDATE=always cargo test --lib",
        path.display()
    );
}
