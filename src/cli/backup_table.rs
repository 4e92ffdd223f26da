//! Tables of backups: the list in the store, and what retention would remove.

use super::out;
use crate::model::{Keep, ListedBackup, Marks, Spec, UnixMs, Verdict, Verified};

/// The list of backups, followed by the problems of single backups. A `wide` one says why backups are kept,
/// and has the notes.
pub(super) fn render(list: &[ListedBackup], now: UnixMs, wide: bool) -> String {
    if list.is_empty() {
        return "No backups yet.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|listed| {
            let stored = match listed {
                ListedBackup::Readable(stored) => stored,
                ListedBackup::Unreadable { id, .. } => {
                    let mut cells = vec![id.to_string()];
                    cells.extend(["-"; 5].map(str::to_owned));
                    cells.push("UNREADABLE".to_owned());
                    cells.extend((0..if wide { 2 } else { 1 }).map(|_| "-".to_owned()));
                    return cells;
                }
            };
            let backup = &stored.summary;
            let mut cells = vec![
                backup.id.to_string(),
                out::time(backup.at),
                out::age(now.since(backup.at)),
                backup.revision.to_string(),
                // Without increments there is nothing to show.
                Some(stored.covered)
                    .filter(|covered| *covered > backup.revision)
                    .map_or_else(|| "-".to_owned(), |covered| covered.to_string()),
                out::size(backup.size_bytes),
                match &stored.verify_unreadable {
                    Some(_) => "UNREADABLE".to_owned(),
                    None => verified(stored.verified.as_ref(), now),
                },
                kept(&stored.marks, wide),
            ];
            if wide {
                let note = stored.marks.note.as_ref();
                cells.push(note.map_or_else(|| "-".to_owned(), |note| note.text.clone()));
            }
            cells
        })
        .collect();
    let head = [
        "BACKUP",
        "COMMITTED",
        "AGE",
        "REVISION",
        "COVERS TO",
        "SIZE",
        "VERIFIED",
        "KEPT",
        "NOTE",
    ];
    let head = head.get(..if wide { 9 } else { 8 }).unwrap_or(&head);
    let bad = list.iter().filter_map(|listed| match listed {
        ListedBackup::Unreadable { id, unreadable } => Some(format!("{id} cannot be read: {unreadable}\n")),
        ListedBackup::Readable(stored) => {
            let id = &stored.summary.id;
            if let Some(why) = &stored.verify_unreadable {
                return Some(format!(
                    "the result of the verification of {id} cannot be read: {why}\n"
                ));
            }
            let verified = stored.verified.as_ref().filter(|verified| !verified.is_ok())?;
            let why = verified.problems.join("; ");
            Some(format!("{id} is bad: {why}\n"))
        }
    });
    let readable = list.iter().filter_map(|listed| match listed {
        ListedBackup::Readable(stored) => Some(stored),
        ListedBackup::Unreadable { .. } => None,
    });
    let living = readable.clone().filter_map(|stored| stored.history()).max();
    let ended = readable.filter(|stored| {
        let of = stored.history();
        of.map(|(epoch, _)| epoch) == living.map(|(epoch, _)| epoch) && of < living
    });
    let ended = ended.map(|stored| {
        let id = &stored.summary.id;
        format!(
            "{id} is of the history before etcd was put back: `restore latest` does not use it, `restore {id}` does\n"
        )
    });
    let marks = list.iter().filter_map(|listed| match listed {
        ListedBackup::Readable(stored) => {
            let (id, why) = (&stored.summary.id, stored.marks.marks_unreadable.as_ref()?);
            Some(format!("{id} is kept, because its marks cannot be read: {why}\n"))
        }
        ListedBackup::Unreadable { .. } => None,
    });
    out::table(head, &rows) + &bad.chain(marks).chain(ended).collect::<String>()
}

/// Whether an operator's order keeps a backup; in a `wide` table since when, where it was given, and why.
fn kept(marks: &Marks, wide: bool) -> String {
    if marks.marks_unreadable.is_some() {
        return "UNREADABLE".to_owned();
    }
    let Some(kept) = &marks.kept else {
        return "-".to_owned();
    };
    if !wide {
        return "yes".to_owned();
    }
    let reason = kept.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("since {} on {}{reason}", out::time(kept.since), kept.node)
}

fn verified(verified: Option<&Verified>, now: UnixMs) -> String {
    match verified {
        None => "-".to_owned(),
        Some(verified) if verified.is_ok() => format!("{} ago", out::age(now.since(verified.at))),
        Some(_) => "BAD".to_owned(),
    }
}

/// Says that other nodes have other backups. Empty if all nodes use one store.
pub(super) fn own_only(spec: &Spec) -> String {
    if spec.store_shared || spec.nodes.len() < 2 {
        return String::new();
    }
    format!(
        "\nThese are only the backups that {} took while it coordinated: its store is its own (store.shared = false).\n\
         Those of another node: `etcd-agent --host NODE backup list`\n",
        spec.node
    )
}

/// Which backups would be removed and which kept, with the reasons.
pub(super) fn render_verdicts(verdicts: &[Verdict], now: UnixMs) -> String {
    if verdicts.is_empty() {
        return "No backups yet.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let backup = &verdict.backup.summary;
            let reasons: Vec<&str> = verdict.keep.iter().map(|keep| Keep::as_str(*keep)).collect();
            vec![
                backup.id.to_string(),
                out::age(now.since(backup.at)),
                out::size(backup.size_bytes),
                if verdict.goes() { "remove" } else { "keep" }.to_owned(),
                reasons.join(", "),
            ]
        })
        .collect();
    let goes = verdicts.iter().filter(|v| v.goes());
    let bytes = goes.clone().map(|v| v.backup.summary.size_bytes).sum();
    format!(
        "{}\n{} of {} backups would be removed, {}.\n",
        out::table(&["BACKUP", "AGE", "SIZE", "VERDICT", "REASONS"], &rows),
        goes.count(),
        verdicts.len(),
        out::size(bytes)
    )
}
