//! `marks.json`, next to `backup.json`: what operators noted on a backup, and who removes it.
//!
//! The object is only written conditionally, and a remover writes its claim into it before it deletes
//! anything. So of an order to keep a backup and a removal at the same moment exactly one succeeds, also on
//! two nodes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{BackupId, Kept, MARK_CHARS, Marks, Note, UnixMs};
use crate::ports::{Created, ObjectStore, PortError, PortResult, Replaced};

use super::layout::{Layout, MARKS};

/// The format that this agent writes, and the only one that it reads.
pub(in crate::backup) const FORMAT: u32 = 1;
/// The largest object that is read, in bytes. What an agent writes is at most a quarter of it.
const MOST_BYTES: usize = 32 * 1024;
/// A claim counts for this long. Its writer deletes the commit marker at once, so an older one was abandoned.
const CLAIM_FOR: Duration = Duration::from_hours(1);
/// How often a write is tried that other writers overtake.
pub(super) const TRIES: u32 = 5;

/// `marks.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarksFile {
    /// [`FORMAT`].
    pub format: u32,
    /// The backup's name.
    pub id: BackupId,
    /// Retention does not remove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// A note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// It is being removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Claim>,
    /// Fields of newer agents, which stay as they are.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Who removes a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// When the removal began.
    pub since: UnixMs,
    /// A random number, which tells this removal from others.
    pub token: String,
}

/// The time of a call, and a random number, which tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The time.
    pub now: UnixMs,
    /// The random number.
    pub random: u64,
}

/// A change of the marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkChange {
    /// Keep it. A missing reason leaves an older one.
    Keep(Kept),
    /// Leave it to retention.
    Release,
    /// Write a note or remove it.
    Annotate(Option<Note>),
}

impl MarksFile {
    pub(super) fn new(id: &BackupId) -> Self {
        Self {
            format: FORMAT,
            id: id.clone(),
            kept: None,
            note: None,
            removal: None,
            rest: Map::new(),
        }
    }

    /// Reads `marks.json` of the backup `id`.
    ///
    /// # Errors
    /// Why it is not understood. The backup may be kept then.
    pub fn parse(id: &BackupId, text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        if text.len() > MOST_BYTES {
            return Err(format!("it is larger than {MOST_BYTES} bytes: no agent wrote it"));
        }
        let version: Version = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if version.format != u64::from(FORMAT) {
            return Err(format!(
                "it has format {}, and this agent reads format {FORMAT}; use a newer agent",
                version.format
            ));
        }
        let marks: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if marks.id != *id {
            return Err(format!("it is of {}", marks.id));
        }
        let reason = marks.kept.as_ref().and_then(|kept| kept.reason.as_deref());
        let note = marks.note.as_ref().map(|note| note.text.as_str());
        if reason
            .into_iter()
            .chain(note)
            .any(|text| text.chars().count() > MARK_CHARS)
        {
            return Err(format!("a text in it is longer than {MARK_CHARS} characters"));
        }
        Ok(marks)
    }

    /// As JSON for people, ending in a newline.
    ///
    /// # Errors
    /// When the object would be too large to be read again: fields of newer agents fill it.
    pub fn to_json(&self) -> Result<Vec<u8>, String> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        text.push(b'\n');
        if text.len() > MOST_BYTES {
            return Err(format!("it would be larger than {MOST_BYTES} bytes"));
        }
        Ok(text)
    }

    /// The same without a claim, for the second store, from which nothing is removed.
    pub(super) fn without_claim(self) -> Self {
        Self {
            removal: None,
            ..self
        }
    }

    /// True if nothing is noted.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_none() && self.note.is_none() && self.removal.is_none() && self.rest.is_empty()
    }

    pub(super) fn change(&mut self, change: &MarkChange) {
        match change {
            MarkChange::Keep(wanted) => {
                let there = self.kept.take();
                let same = |there: &Kept| wanted.reason.is_none() || wanted.reason == there.reason;
                self.kept = there.filter(same).or_else(|| Some(wanted.clone()));
            }
            MarkChange::Release => self.kept = None,
            MarkChange::Annotate(wanted) => {
                let text = |note: &Option<Note>| note.as_ref().map(|note| note.text.clone());
                if text(&self.note) != text(wanted) {
                    self.note.clone_from(wanted);
                }
            }
        }
    }
}

/// The marks as the catalogue shows them, for a backup whose listing has `marks.json`.
pub(super) async fn shown(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> PortResult<Marks> {
    let unknown = |why: String| Marks {
        marks_unreadable: Some(why),
        ..Marks::default()
    };
    Ok(match read(store, layout, id).await? {
        Ok(Some(file)) => Marks {
            kept: file.kept,
            note: file.note,
            marks_unreadable: None,
        },
        Ok(None) => unknown(format!("{MARKS} is listed, and the store does not return it")),
        Err(why) => unknown(why),
    })
}

/// The marks; the text says why they are unknown.
pub(super) async fn read(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
) -> PortResult<Result<Option<MarksFile>, String>> {
    let text = match store.get_small(&layout.in_backup(id, MARKS)).await {
        Ok(text) => text,
        // The store answers, so this concerns one object.
        Err(PortError::Permanent(why)) => return Ok(Err(why)),
        Err(error) => return Err(error),
    };
    let parsed = text.map(|text| MarksFile::parse(id, &text));
    Ok(parsed.transpose().map_err(|why| format!("{MARKS}: {why}")))
}

/// One attempt to write.
pub(super) enum Attempt {
    Done,
    /// Somebody else has written meanwhile.
    Overtaken,
}

/// Writes the marks if they are still what was read; `before` is `None` if there were none.
pub(super) async fn write(
    store: &dyn ObjectStore,
    layout: &Layout,
    before: Option<&MarksFile>,
    after: &MarksFile,
) -> PortResult<Attempt> {
    let key = layout.in_backup(&after.id, MARKS);
    let refused = |why: String| PortError::Permanent(format!("{}: {key}: {why}", store.describe()));
    let body = after.to_json().map_err(refused)?;
    let Some(before) = before else {
        return Ok(match store.create(&key, body.clone().into()).await? {
            Created::Created => Attempt::Done,
            // The answer to an earlier attempt was lost.
            Created::Exists(there) if there == body => Attempt::Done,
            Created::Exists(_) => Attempt::Overtaken,
        });
    };
    let Some((text, tag)) = store.get_tagged(&key).await? else {
        return Ok(Attempt::Overtaken);
    };
    if MarksFile::parse(&after.id, &text).as_ref() != Ok(before) {
        return Ok(Attempt::Overtaken);
    }
    Ok(match store.replace(&key, body.into(), &tag).await? {
        Replaced::Done => Attempt::Done,
        Replaced::Changed => Attempt::Overtaken,
    })
}

impl Claim {
    /// True while the removal may be under way. A claim that is dated far in the future says nothing about
    /// that: the clock of its writer was wrong.
    pub(super) fn holds(&self, now: UnixMs) -> bool {
        now.since(self.since) < CLAIM_FOR && self.since.since(now) < CLAIM_FOR
    }
}

impl Call {
    fn claim(&self) -> Claim {
        Claim {
            since: self.now,
            token: format!("{:016x}", self.random),
        }
    }

    /// A growing pause of random length, so that writers do not collide again.
    pub(super) async fn pause(&self, attempt: u32) {
        let ms = u64::from(attempt) * (10 + self.random % 50);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Why a backup is not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stays {
    /// It is kept, or may be.
    Kept(String),
    /// The store refuses the claim.
    Refused(String),
}

/// Claims a backup for its removal, or says why it stays. Nobody can order to keep it from then on.
///
/// # Errors
/// What the store answered. The backup stays.
pub(super) async fn claim(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
    call: &Call,
) -> PortResult<Result<(), Stays>> {
    for attempt in 1..=TRIES {
        let before = match read(store, layout, id).await? {
            Ok(before) => before,
            Err(why) => return Ok(Err(Stays::Kept(why))),
        };
        if before.as_ref().is_some_and(|marks| marks.kept.is_some()) && !mutant!(KeptPruned) {
            let why = "it is kept by an operator's order".to_owned();
            return Ok(Err(Stays::Kept(why)));
        }
        // Where objects cannot be created conditionally, no marks are ever written.
        if before.is_none() && !store.conditional_writes().await? {
            return Ok(Ok(()));
        }
        let mut after = before.clone().unwrap_or_else(|| MarksFile::new(id));
        after.removal = Some(call.claim());
        match write(store, layout, before.as_ref(), &after).await {
            Ok(Attempt::Done) => return Ok(Ok(())),
            Ok(Attempt::Overtaken) => call.pause(attempt).await,
            Err(PortError::Permanent(why)) => return Ok(Err(Stays::Refused(why))),
            Err(error) => return Err(error),
        }
    }
    let why = format!("its marks changed {TRIES} times during the removal");
    Ok(Err(Stays::Kept(why)))
}

/// Takes a claim back when the store refuses to delete the backup. A failure only delays orders to keep it.
pub(super) async fn release(store: &dyn ObjectStore, layout: &Layout, id: &BackupId, call: &Call) {
    let own = Some(call.claim());
    let Ok(Ok(Some(before))) = read(store, layout, id).await else {
        return;
    };
    if before.removal != own {
        return;
    }
    let mut after = before.clone();
    after.removal = None;
    if let Err(error) = write(store, layout, Some(&before), &after).await {
        tracing::debug!("the claim on {id} stays: {error}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
