//! The learners in etcd's database, by the bucket `members` that etcd reads at its start.
//!
//! Source: `MustSaveMemberToBackend` and `BackendMemberKey` in etcd's `server/etcdserver/api/membership` (3.4 to 3.7).

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::bolt::read::{Reader, bucket};
use crate::bolt::{Bolt, damaged};
use crate::model::MemberId;

const BUCKET: &[u8] = b"members";
/// How often the file is read while etcd commits at the same time, and the pause between two tries. etcd commits about
/// every 100 ms under load.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// The part of a stored member that is needed.
#[derive(Deserialize)]
struct Stored {
    #[serde(default, rename = "isLearner")]
    is_learner: bool,
}

/// The members that this database has as learners. etcd may be writing to it.
///
/// # Errors
/// One line. It could not be read, or it is not a database of etcd: nothing is known.
pub(super) fn learners(database: &Path) -> Result<BTreeSet<MemberId>, String> {
    let why = |error: &dyn std::fmt::Display| format!("reading {}: {error}", database.display());
    let file = File::open(database).map_err(|error| why(&error))?;
    let mut last = String::new();
    for _ in 0..TRIES {
        match read(&file) {
            Ok(Some(learners)) => return Ok(learners),
            Ok(None) => "etcd commits all the time".clone_into(&mut last),
            Err(error) => last = error.to_string(),
        }
        thread::sleep(PAUSE);
    }
    Err(why(&last))
}

/// `None` if etcd has committed meanwhile: it may have used pages again that were read.
fn read(file: &File) -> Bolt<Option<BTreeSet<MemberId>>> {
    let reader = Reader::open(file)?;
    let found = reader.buckets()?.into_iter().find(|item| item.key == BUCKET);
    let items = match found {
        Some(item) => reader.contents(&bucket(&item)?)?,
        None => Vec::new(),
    };
    let mut learners = BTreeSet::new();
    for item in items {
        let id = str::from_utf8(&item.key).ok().and_then(|text| text.parse().ok());
        let stored: Option<Stored> = serde_json::from_slice(&item.value).ok();
        match (id, stored) {
            (Some(id), Some(stored)) if stored.is_learner => drop(learners.insert(id)),
            (Some(_), Some(_)) => {}
            _ => return damaged("a stored member is garbage"),
        }
    }
    let unchanged = Reader::open(file)?.meta.txid == reader.meta.txid;
    Ok(unchanged.then_some(learners))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bolt::testing::{self, tree};

    /// The elements of the bucket, and the learners that are found.
    type Row = (
        Option<&'static [(&'static str, &'static str)]>,
        Option<&'static [u64]>,
    );

    /// A database whose bucket `members` has these elements; none if there is no such bucket.
    fn database(path: &Path, members: Option<&[(&str, &str)]>) {
        let file = File::create_new(path).unwrap();
        testing::database(&file, |writer| {
            let mut buckets = vec![tree(writer, "key", &[("0", "")])];
            buckets.extend(members.map(|members| tree(writer, "members", members)));
            buckets
        });
    }

    #[test]
    fn c12_the_learners_of_a_database() {
        const VOTER: &str = r#"{"id":11,"peerURLs":["https://n1:2380"],"name":"n1"}"#;
        const LEARNER: &str = r#"{"id":12,"peerURLs":["https://n2:2380"],"isLearner":true,"name":"n2"}"#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let table: [Row; 6] = [
            (None, Some(&[])),
            (Some(&[("b", VOTER)]), Some(&[])),
            (Some(&[("b", VOTER), ("c", LEARNER)]), Some(&[0xc])),
            (Some(&[("b", LEARNER), ("c", LEARNER)]), Some(&[0xb, 0xc])),
            (Some(&[("b", VOTER), ("n3", LEARNER)]), None),
            (Some(&[("b", "garbage")]), None),
        ];
        for (members, expected) in table {
            let _ = fs::remove_file(&path);
            database(&path, members);
            let expected = expected.map(|ids| ids.iter().copied().map(MemberId).collect());
            assert_eq!(learners(&path).ok(), expected, "{members:?}");
        }
        fs::write(&path, "no database").unwrap();
        assert!(learners(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(learners(&path).unwrap_err().contains("No such file"));
    }
}
