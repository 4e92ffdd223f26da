//! What `etcd-agent archive` says to people.

use std::fmt::Write;
use std::path::Path;

use super::out;
use crate::model::UnixMs;
use crate::unit::data::{Archived, Removal, RemovalCause};

/// A table of what is archived, with the places and the sum below it.
pub(super) fn render(list: &[Archived], places: &[&Path], now: UnixMs) -> String {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let places = places.join(" and ");
    if list.is_empty() {
        return format!("Nothing is archived in {places}.\n");
    }
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|one| {
            vec![
                one.name.clone(),
                out::age(now.since(one.at)),
                size(one.size_bytes),
                kept(one),
            ]
        })
        .collect();
    let all = list.iter().filter_map(|one| one.size_bytes).sum();
    let goes = || list.iter().filter(|one| one.keep.is_empty());
    let mut text = out::table(&["NAME", "AGE", "SIZE", "KEPT"], &rows);
    let _ = write!(text, "\n{} in {places}, {}.", counted(list.len()), out::size(all));
    if goes().next().is_some() {
        let bytes = goes().filter_map(|one| one.size_bytes).sum();
        let (count, bytes) = (goes().count(), out::size(bytes));
        let _ = write!(
            text,
            " `etcd-agent archive prune` removes {count} of them, {bytes}."
        );
    }
    text.push('\n');
    text
}

/// Why one is kept, and until when.
fn kept(one: &Archived) -> String {
    if one.keep.is_empty() {
        return "until the next pruning".to_owned();
    }
    let words: Vec<&str> = one.keep.iter().map(|keep| keep.as_str()).collect();
    let until = one.kept_until.map(out::time);
    let until = until.map_or_else(String::new, |until| format!(", until {until}"));
    words.join(", ") + &until
}

/// What is asked before named directories are removed.
pub(super) fn question(removals: &[Removal]) -> String {
    let mut text = String::from("Removed for good, with all data in them:\n");
    for one in removals {
        let _ = writeln!(text, "  {}, {}", one.name, size(one.size_bytes));
    }
    text.truncate(text.trim_end().len());
    text
}

/// A line for each that was removed, or would be.
pub(super) fn removals(removals: &[Removal], dry_run: bool) -> String {
    let verb = if dry_run { "would be removed" } else { "is removed" };
    let mut text = String::new();
    for one in removals {
        let size = size(one.size_bytes);
        let condition = if dry_run && one.cause == RemovalCause::Space {
            ", as long as the disk is nearly full"
        } else {
            ""
        };
        let _ = writeln!(text, "{} {verb} ({size}){condition}", one.name);
    }
    text
}

/// One line: what was freed, or why nothing was. `named` are the names that were given.
pub(super) fn message(removals: &[Removal], named: &[String], dry_run: bool) -> String {
    let there: Vec<&str> = removals.iter().map(|one| one.name.as_str()).collect();
    let absent = named.iter().map(String::as_str);
    let absent: Vec<&str> = absent.filter(|name| !there.contains(name)).collect();
    let absent = absent.join(", ");
    if removals.is_empty() {
        return if named.is_empty() {
            "nothing to remove: retention keeps all that is archived".to_owned()
        } else {
            format!("nothing to remove: not in the archive: {absent}")
        };
    }
    let bytes = out::size(bytes(removals));
    let done = match (removals.len(), dry_run) {
        (_, true) => "would be removed",
        (1, false) => "is removed",
        (_, false) => "are removed",
    };
    let mut text = format!("{} {done}, {bytes}", counted(removals.len()));
    if !absent.is_empty() {
        let _ = write!(text, "; not in the archive: {absent}");
    }
    text
}

/// The bytes of all whose size is known.
pub(super) fn bytes(removals: &[Removal]) -> u64 {
    removals.iter().filter_map(|one| one.size_bytes).sum()
}

fn counted(count: usize) -> String {
    match count {
        1 => "1 archived data directory".to_owned(),
        count => format!("{count} archived data directories"),
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), out::size)
}
