//! The lengths of files.

use crate::sources::files;

/// The maximum number of lines. A longer file probably has more than one purpose.
const MOST_LINES: usize = 600;

#[test]
fn a_file_is_one_room() {
    for file in files() {
        assert!(
            file.lines <= MOST_LINES,
            "src/{} has {} lines, more than {MOST_LINES}: split it by purpose",
            file.path,
            file.lines
        );
    }
}

#[test]
fn main_is_wiring() {
    let main = files().into_iter().find(|file| file.path == "main.rs").unwrap();
    assert!(main.lines <= 30, "main.rs has {} lines", main.lines);
}
