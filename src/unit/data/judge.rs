//! Whether this member's data is damaged. It counts as damaged only if etcd ended with log lines that say so
//! (`LastWords::claim_damage`) and the data, read again while etcd is stopped, is damaged too. Neither is
//! enough alone: etcd's tool reports a database with one good meta page as damaged, which etcd can serve
//! from, and etcd's lines may be about damage that has been repaired since.

use super::owner::Owner;
use super::{database, inspect};
use crate::model::{DataState, LastWords, Trouble};
use crate::unit::journal;
use crate::unit::wal::check;

/// Checks what was found in the data directory against etcd's last log lines. A check that fails changes
/// nothing.
pub(super) fn judge(owner: &Owner, found: DataState, words: &LastWords) -> DataState {
    if !words.claim_damage() {
        return found;
    }
    match damage(owner, words.trouble) {
        Ok(Some(what)) => DataState::Unusable {
            why: format!(
                "etcd ends with \"{}\", and reading the data finds: {what}",
                words.text
            ),
            member: found.member(),
        },
        Ok(None) => found,
        Err(why) => {
            journal::say(&format!("whether the data is damaged is not known: {why}"));
            found
        }
    }
}

fn damage(owner: &Owner, trouble: Trouble) -> Result<Option<String>, String> {
    let dirs = &owner.dirs;
    let lock = inspect::lock(dirs)?;
    match trouble {
        Trouble::Log => check::damage(&dirs.log(), &dirs.snap()).map_err(|error| error.to_string()),
        Trouble::Database => {
            // etcd's tool takes the lock itself.
            drop(lock);
            database::damage(&dirs.database(), &owner.tools)
        }
        _ => Ok(None),
    }
}
