//! The lengths of files.

use std::fs;
use std::path::Path;

use crate::sources::{files, walk};

/// The maximum number of lines. A longer file probably has more than one purpose.
const MOST_LINES: usize = 500;

/// The path and the length of each file below `tests/`, in all packages.
fn lengths_of_tests() -> Vec<(String, usize)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&root.join("tests"), &mut paths);
    paths.sort();
    let lengths = paths.iter().map(|path| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap().lines().count())
    });
    let lengths: Vec<_> = lengths.collect();
    for package in ["fuzz", "genesis", "lab", "layering", "sim", "store"] {
        let dir = format!("tests/{package}/");
        let found = lengths.iter().any(|(name, _)| name.starts_with(&dir));
        assert!(found, "no file was found in {dir}");
    }
    lengths
}

#[test]
fn a_file_is_one_room() {
    let sources = files().into_iter();
    let sources = sources.map(|file| (format!("src/{}", file.path), file.lines));
    let too_long: Vec<String> = sources
        .chain(lengths_of_tests())
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(name, lines)| format!("{name} has {lines} lines, more than {MOST_LINES}: split it by purpose"))
        .collect();
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn main_is_wiring() {
    let main = files().into_iter().find(|file| file.path == "main.rs").unwrap();
    assert!(main.lines <= 30, "main.rs has {} lines", main.lines);
}
