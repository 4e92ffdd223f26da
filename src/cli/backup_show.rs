//! `etcd-agent backup show`: everything that is known of one backup.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::progress::note;
use super::verify;
use super::wait::ListTimeout;
use crate::model::{BackupId, Keep, ListedBackup, Page, StoredBackup, UnixMs, Verdict, Verified, Writer};

/// `backup show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// A backup's name, as `backup list` shows it, or `latest`
    #[arg(default_value = "latest")]
    backup: String,
    #[command(flatten)]
    timeout: ListTimeout,
    #[command(flatten)]
    output: Output,
}

/// A backup, and why retention keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub(super) listed: ListedBackup,
    /// The reasons; empty if the next pruning removes it, `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) keep: Option<Vec<Keep>>,
}

pub(super) async fn run(client: &Client, args: ShowArgs) -> Outcome {
    let store = client.within(args.timeout.timeout);
    let id = verify::full_of(&verify::meant(&store, &args.backup).await?);
    let page: Page<ListedBackup> = store.get(&format!("/v1/backups?backup={id}")).await?;
    let listed = page.items.into_iter().find(|listed| *listed.id() == id);
    let listed = listed.ok_or_else(|| unknown(&id))?;
    let keep = match &listed {
        ListedBackup::Readable(_) => reasons(&store, &id).await,
        ListedBackup::Unreadable { .. } => None,
    };
    let now = out::now();
    args.output
        .print(&Shown { listed, keep }, |shown| render(shown, now))?;
    Ok(Exit::Ok)
}

fn unknown(id: &BackupId) -> Failure {
    Failure::failed(format!(
        "there is no backup {id} in the store: `etcd-agent backup list` shows all, and `etcd-agent backup show latest` \
         the one that `restore latest` starts from"
    ))
}

/// Why retention keeps it. Without an answer the rest is shown nevertheless.
async fn reasons(store: &Client, id: &BackupId) -> Option<Vec<Keep>> {
    match store.all::<Verdict>("/v1/backups/retention").await {
        Ok(verdicts) => {
            let mut verdicts = verdicts.into_iter();
            verdicts
                .find(|verdict| verdict.backup.summary.id == *id)
                .map(|verdict| verdict.keep)
        }
        Err(error) => {
            note(&format!("why retention keeps it is not known: {error}"));
            None
        }
    }
}

/// One line for each thing that is known.
pub(super) fn render(shown: &Shown, now: UnixMs) -> String {
    let stored = match &shown.listed {
        ListedBackup::Readable(stored) => stored,
        ListedBackup::Unreadable { id, unreadable } => {
            return format!("{id} cannot be read: {unreadable}\n");
        }
    };
    let backup = &stored.summary;
    let age = out::age(now.since(backup.at));
    let mut rows = vec![
        ("backup", backup.id.to_string()),
        ("committed", format!("{}, {age} ago", out::time(backup.at))),
        ("revision", backup.revision.to_string()),
        ("increments", increments(stored)),
        ("needs", "no other backup; its increments need it".to_owned()),
        (
            "size",
            format!("{} (without increments)", out::size(backup.size_bytes)),
        ),
        ("written by", writer(stored.writer).to_owned()),
        ("history", history(stored)),
        ("verified", verified(stored, now)),
        ("order", order(stored)),
    ];
    if let Some(keep) = &shown.keep {
        rows.push(("retention", retention(keep)));
    }
    if let Some(note) = &stored.marks.note {
        let (at, node) = (out::time(note.at), &note.node);
        rows.push(("note", format!("{} (since {at}, on {node})", note.text)));
    }
    if let Some(why) = &stored.went_back {
        rows.push(("before it", format!("etcd was put back to an older state: {why}")));
    }
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<11} {value}");
    }
    text
}

/// The revisions that the increments add.
fn increments(stored: &StoredBackup) -> String {
    let (from, to) = (stored.summary.revision, stored.covered);
    if to <= from {
        return "none".to_owned();
    }
    format!("cover revisions {} to {to}", from.0.saturating_add(1))
}

fn writer(writer: Writer) -> &'static str {
    match writer {
        Writer::EtcdAgent => "etcd-agent",
        Writer::EtcdManager => "etcd-manager",
    }
}

fn history(stored: &StoredBackup) -> String {
    stored.history().map_or_else(
        || "not known".to_owned(),
        |(epoch, timeline)| format!("epoch {epoch}, timeline {timeline}"),
    )
}

fn verified(stored: &StoredBackup, now: UnixMs) -> String {
    let ago = |verified: &Verified| {
        let age = out::age(now.since(verified.at));
        format!("{}, {age} ago", out::time(verified.at))
    };
    match (&stored.verify_unreadable, &stored.verified) {
        (Some(why), _) => format!("not known: {why}"),
        (None, None) => "never: `etcd-agent backup verify` does it".to_owned(),
        (None, Some(verified)) if verified.is_ok() => format!("{}: good", ago(verified)),
        (None, Some(verified)) => format!("{}: BAD: {}", ago(verified), verified.problems.join("; ")),
    }
}

/// An operator's order to keep it.
fn order(stored: &StoredBackup) -> String {
    match (&stored.marks.marks_unreadable, &stored.marks.kept) {
        (Some(why), _) => format!("not known, so it is kept: {why}"),
        (None, None) => "none".to_owned(),
        (None, Some(kept)) => {
            let reason = kept.reason.as_ref();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            format!("keep, since {} on {}{reason}", out::time(kept.since), kept.node)
        }
    }
}

fn retention(keep: &[Keep]) -> String {
    if keep.is_empty() {
        return "the next pruning removes it".to_owned();
    }
    let words: Vec<&str> = keep.iter().map(|keep| keep.as_str()).collect();
    format!("keeps it: {}", words.join(", "))
}
