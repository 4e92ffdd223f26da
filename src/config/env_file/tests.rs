#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

/// Files, and the environment that a unit's process gets from them: `tests/lab/tests/hosts/env_files.rs`
/// checks the same with real systemds.
const CASES: &str = include_str!("../../../tests/lab/env_files.json");

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    is: BTreeMap<String, String>,
    before_254: Option<BTreeMap<String, String>>,
}

fn read(text: &str, systemd: u32) -> BTreeMap<String, String> {
    let found = parse(text, systemd).into_iter();
    found.map(|one| (one.key, one.value)).collect()
}

#[test]
fn b14_files_are_read_as_systemd_reads_them() {
    let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() >= 20, "{} cases", cases.len());
    for case in cases {
        assert_eq!(read(&case.text, 257), case.is, "{}", case.name);
        let before = case.before_254.as_ref().unwrap_or(&case.is);
        assert_eq!(read(&case.text, 252), *before, "{}, systemd 252", case.name);
    }
}

#[test]
fn b14_each_assignment_has_its_line() {
    let text = "# comment\nA=1\n\n; too\n B = two\nC=\"1\n2\"\nD=a\\\n b\nE=\nnonsense\nF='x'\n";
    let found: Vec<(String, usize)> = parse(text, 257).into_iter().map(|a| (a.key, a.line)).collect();
    let expected = [("A", 2), ("B", 5), ("C", 6), ("D", 8), ("E", 10), ("F", 12)];
    assert_eq!(found, expected.map(|(key, line)| (key.to_owned(), line)));
}
