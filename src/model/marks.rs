//! What operators note on a single backup: that it stays, and a text.

use serde::{Deserialize, Serialize};

use super::visible::is_hidden;
use super::{BackupId, NodeName, UnixMs};

/// The longest reason or note, in characters.
pub const MARK_CHARS: usize = 500;

/// The marks of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Since when retention never removes it; `None` if it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// The note of an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// Why the marks are unknown: the store does not return them, or they cannot be understood. The backup
    /// may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks_unreadable: Option<String>,
}

/// An operator's order to keep a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// When it was given.
    pub since: UnixMs,
    /// The node that it was given on.
    pub node: NodeName,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An operator's note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When it was written.
    pub at: UnixMs,
    /// The node that it was written on.
    pub node: NodeName,
    /// The text, one line.
    pub text: String,
}

/// `POST /v1/backups/change`: an order about one backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupOrder {
    /// The backup.
    pub backup: BackupId,
    /// What to do with it.
    #[serde(flatten)]
    pub change: BackupChange,
    /// Change nothing, and report what would be changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// What to do with a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum BackupChange {
    /// Remove it.
    Delete,
    /// Keep it, whatever retention says.
    Keep {
        /// Why; `None` leaves the reason of an earlier order.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Leave it to retention again.
    Release,
    /// Write a note, or remove it.
    Annotate {
        /// The note; `None` removes it.
        #[serde(default)]
        text: Option<String>,
    },
}

impl BackupChange {
    /// What is wrong with the text of the order, if something is.
    pub fn objection(&self) -> Option<String> {
        let (Self::Keep { reason: text } | Self::Annotate { text }) = self else {
            return None;
        };
        text.as_deref().and_then(text_objection)
    }
}

/// Why a text cannot be a reason or a note; `None` if it can.
pub fn text_objection(text: &str) -> Option<String> {
    let length = text.chars().count();
    if text.trim().is_empty() {
        return Some(format!(
            "the text is empty: expected 1 to {MARK_CHARS} characters"
        ));
    }
    if length > MARK_CHARS {
        return Some(format!(
            "the text has {length} characters: expected at most {MARK_CHARS}"
        ));
    }
    let hidden = text.chars().find(|c| is_hidden(*c))?;
    Some(format!(
        "the text contains {}: expected one line without control characters and invisible characters",
        hidden.escape_unicode()
    ))
}

/// The answer to `POST /v1/backups/change`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupChangeView {
    /// The backup.
    pub backup: BackupId,
    /// False if nothing was changed: it was so already, or in a dry run.
    pub changed: bool,
    /// One line for people.
    pub message: String,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_that_people_can_see() {
        for good in [
            "x",
            "before the upgrade to 3.6",
            "größer, 日本語",
            &"x".repeat(MARK_CHARS),
        ] {
            assert_eq!(text_objection(good), None, "{good:?}");
        }
        for (bad, why) in [
            ("", "is empty"),
            (" \u{a0}", "is empty"),
            (
                &*"x".repeat(MARK_CHARS + 1),
                "501 characters: expected at most 500",
            ),
            ("two\nlines", r"\u{a}"),
            ("\u{1b}[2J", r"\u{1b}"),
            ("a\u{202e}b", r"\u{202e}"),
        ] {
            let found = text_objection(bad).unwrap();
            assert!(found.contains(why), "{bad:?}: {found}");
        }
    }

    #[test]
    fn orders_are_what_the_api_documents() {
        let order = |text: &str| serde_json::from_str::<BackupOrder>(text).unwrap();
        assert_eq!(
            order(r#"{"backup":"x","change":"delete"}"#).change,
            BackupChange::Delete
        );
        let kept = order(r#"{"backup":"x","change":"keep","reason":"\u001b","dry_run":true}"#);
        assert!(kept.dry_run && kept.change.objection().is_some());
        let note = order(r#"{"backup":"x","change":"annotate"}"#);
        assert_eq!(note.change, BackupChange::Annotate { text: None });
        assert_eq!(note.change.objection(), None);
    }
}
