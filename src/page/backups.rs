//! The backups with their verification.

use maud::{Markup, html};

use super::picture::Picture;
use super::{parts, timeline};
use crate::model::{RecentBackup, SeenVerification, health, wording};

const HEAD: [&str; 4] = ["Backup", "Age", "Contents", "Verification"];
/// The rows that are always shown.
const FIRST: usize = 6;

pub(super) fn section(picture: &Picture) -> Markup {
    html! {
        section aria-labelledby="backups" {
            h2 #backups { "Backups" }
            @match &picture.status.store {
                None => { p { "No store is configured, so there are no backups." } }
                Some(store) => { (summary(picture, store)) (list(picture)) }
            }
        }
    }
}

fn summary(picture: &Picture, store: &str) -> Markup {
    let (status, now) = (&picture.status, picture.now());
    let seen = health::nodes(status).filter_map(|(_, seen)| seen.known().copied()?.last_backup.as_ref());
    let newest = seen.max_by_key(|backup| backup.at);
    html! {
        dl {
            div { dt { "Store" } dd { (store) } }
            div {
                dt { "Newest full backup" }
                dd {
                    @match newest {
                        Some(backup) => {
                            (parts::ago(backup.at, now)) ", revision " (parts::number(backup.revision.0)) ", "
                            (wording::size(backup.size_bytes))
                        }
                        None => { "none yet" }
                    }
                }
            }
            @if let Some((revision, at)) = status.backups.covered.filter(|_| status.backups.increments.running) {
                div {
                    dt { "Changes stored" }
                    dd { "to revision " (parts::number(revision.0)) ", last " (parts::ago(at, now)) }
                }
            }
            div {
                dt { "Last verification" }
                dd {
                    @match &status.verified {
                        Some((id, verified)) => {
                            (id) ": " (verdict(&SeenVerification::Read(verified.clone()), picture))
                        }
                        None => { "none known" }
                    }
                    @if status.backups.verify.running { ". A backup is being verified now" }
                }
            }
            @if let Some(copy) = &status.copy {
                div {
                    dt { "Second store" }
                    dd {
                        (copy.store) ", "
                        @match (&copy.newest, copy.at) {
                            (Some(newest), Some(at)) => { "up to " (newest) ", " (parts::ago(at, now)) }
                            _ => { "none yet" }
                        }
                        @if let Some(error) = &copy.error { "; failing: " (error) }
                    }
                }
            }
        }
    }
}

fn list(picture: &Picture) -> Markup {
    if picture.backups.is_empty() {
        return html! { p { "No backup is known yet." } };
    }
    let rows: Vec<Vec<Markup>> = picture
        .backups
        .iter()
        .rev()
        .map(|backup| row(backup, picture))
        .collect();
    let (first, older) = rows.split_at(FIRST.min(rows.len()));
    html! {
        (timeline::timeline(&picture.backups, picture.now()))
        (parts::table("The newest backups in the store", &HEAD, first))
        @if !older.is_empty() {
            details {
                summary { "Older backups (" (older.len()) ")" }
                (parts::table("Older backups in the store", &HEAD, older))
            }
        }
    }
}

fn row(backup: &RecentBackup, picture: &Picture) -> Vec<Markup> {
    vec![
        html! { (backup.id) },
        parts::ago(backup.at, picture.now()),
        html! {
            @match backup.size_bytes {
                Some(size) => { (wording::size(size)) }
                None => { "size unknown" }
            }
            @if backup.increments > 0 {
                ", " (backup.increments) @if backup.increments == 1 { " increment" } @else { " increments" }
                " to revision " (parts::number(backup.covered.0))
            }
        },
        verdict(&backup.verification, picture),
    ]
}

/// The result of a verification, in words.
fn verdict(of: &SeenVerification, picture: &Picture) -> Markup {
    html! {
        @match of {
            SeenVerification::None => { span .plain { "not verified" } }
            SeenVerification::Unread => { span .plain { "verified, result not read yet" } }
            SeenVerification::Unreadable(why) => { span .bad { "result cannot be read: " (why) } }
            SeenVerification::Read(verified) => {
                @if verified.is_ok() {
                    span .good { "good" }
                } @else {
                    span .bad { "bad: " (verified.problems.join("; ")) }
                }
                ", " (parts::ago(verified.at, picture.now()))
            }
        }
    }
}
