//! Whether an operator may delete one backup. Retention's verdicts decide: what none of its classes may
//! remove, an order does not remove either.

use crate::model::{BackupId, StoredBackup, Verdict};

/// What is known about the store and its users when the order is given.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// Retention's verdict on each backup that can be read.
    pub verdicts: &'a [Verdict],
    /// The backups that cannot be read, and why.
    pub unreadable: &'a [(BackupId, String)],
    /// The full backup that this agent's increments extend.
    pub chain: Option<&'a BackupId>,
    /// Who restores a backup now, for people; nobody if empty.
    pub restoring: &'a [String],
}

/// The answer to an order to delete a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// It may be deleted.
    Allowed,
    /// There is no such backup.
    Gone,
    /// It stays; the text says why, and what to do.
    Refused(String),
}

/// Decides on an order to delete this backup.
pub fn may_delete(id: &BackupId, stored: &Stored<'_>) -> Deletion {
    let refused = |why: &str| Deletion::Refused(format!("backup {id} is not deleted: {why}"));
    if let Some((_, why)) = stored.unreadable.iter().find(|(other, _)| other == id) {
        return refused(&format!(
            "it cannot be read, so whether it is needed is unknown: {why}; if it is not, delete its objects with \
             the tools of the store"
        ));
    }
    let Some(verdict) = stored.verdicts.iter().find(|v| v.backup.summary.id == *id) else {
        return Deletion::Gone;
    };
    let reasons: Vec<&str> = verdict
        .keep
        .iter()
        .filter_map(|keep| keep.irreplaceable())
        .collect();
    if !reasons.is_empty() {
        return refused(&reasons.join("; also, "));
    }
    // Retention does not count a backup that is dated in the future, and `restore latest` does.
    let all: Vec<StoredBackup> = stored.verdicts.iter().map(|v| v.backup.clone()).collect();
    if StoredBackup::latest(&all).is_some_and(|latest| latest.summary.id == *id) {
        return refused("`restore latest` begins with it: take another one first (`etcd-agent backup now`)");
    }
    if stored.chain == Some(id) {
        return refused(
            "increments are being added to it: take another full backup first (`etcd-agent backup now`)",
        );
    }
    if let Some(who) = stored.restoring.first() {
        return refused(&format!(
            "{who}, perhaps from this backup: wait until that is done"
        ));
    }
    Deletion::Allowed
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{BackupSummary, Epoch, Keep, Marks, Revision, UnixMs, Writer};

    fn id(number: u64) -> BackupId {
        BackupId::new(format!("b-{number}")).unwrap()
    }

    fn verdict(number: u64, keep: &[Keep]) -> Verdict {
        Verdict {
            backup: StoredBackup {
                summary: BackupSummary {
                    id: id(number),
                    at: UnixMs(number),
                    revision: Revision(number),
                    size_bytes: 1,
                },
                writer: Writer::EtcdAgent,
                verified: None,
                verify_unreadable: None,
                epoch: Some(Epoch(1)),
                timeline: None,
                went_back: None,
                revision_at_most: None,
                covered: Revision(number),
                marks: Marks::default(),
            },
            keep: keep.to_vec(),
        }
    }

    /// The answer about backup 1 of three, of which nothing else is known.
    fn answer(keep: &[Keep]) -> Deletion {
        asked(&Stored {
            verdicts: &[verdict(1, keep), verdict(2, &[]), verdict(3, &[Keep::Newest])],
            unreadable: &[],
            chain: None,
            restoring: &[],
        })
    }

    fn asked(stored: &Stored<'_>) -> Deletion {
        may_delete(&id(1), stored)
    }

    fn says(answer: &Deletion, text: &str) -> bool {
        matches!(answer, Deletion::Refused(why) if why.contains(text))
    }

    #[test]
    fn an_order_overrides_the_classes_and_nothing_else() {
        use Keep::{
            Count, Daily, Future, Hourly, Increments, Kept, Newest, NotOurs, Origin, Recent, Unreadable,
            Verified, Weekly, Yearly,
        };
        for class in [Recent, Hourly, Daily, Weekly, Yearly, Count, Future] {
            assert_eq!(answer(&[class]), Deletion::Allowed, "{class:?}");
            assert!(says(&answer(&[class, Kept]), "keep --undo"), "{class:?}");
        }
        for keep in [Newest, Increments, Origin, Verified, Kept, NotOurs, Unreadable] {
            assert!(matches!(answer(&[keep]), Deletion::Refused(_)), "{keep:?}");
        }
        let both = answer(&[Verified, Kept]);
        assert!(
            says(&both, "backup verify") && says(&both, "keep --undo"),
            "{both:?}"
        );
    }

    #[test]
    fn what_is_used_or_unknown_stays() {
        assert_eq!(answer(&[]), Deletion::Allowed);
        let verdicts = [verdict(1, &[]), verdict(2, &[]), verdict(3, &[Keep::Newest])];
        let (own, other) = (id(1), id(2));
        let stored = Stored {
            verdicts: &verdicts,
            unreadable: &[],
            chain: Some(&own),
            restoring: &[],
        };
        assert!(says(&asked(&stored), "increments"));
        let chain = Some(&other);
        assert_eq!(asked(&Stored { chain, ..stored }), Deletion::Allowed);
        let restoring = &["a restore is under way on n2".to_owned()][..];
        assert!(says(
            &asked(&Stored {
                chain,
                restoring,
                ..stored
            }),
            "n2"
        ));
        let unreadable = &[(id(1), "403".to_owned())][..];
        assert!(says(&asked(&Stored { unreadable, ..stored }), "403"));
        assert_eq!(
            asked(&Stored {
                verdicts: &[],
                ..stored
            }),
            Deletion::Gone
        );
    }

    /// With clocks that were ahead, no backup counts as the newest.
    #[test]
    fn the_last_one_stays_whatever_its_date() {
        let all = [verdict(1, &[Keep::Future])];
        let mut stored = Stored {
            verdicts: &all,
            unreadable: &[],
            chain: None,
            restoring: &[],
        };
        assert!(says(&may_delete(&id(1), &stored), "restore latest"));
        let two = [verdict(1, &[Keep::Future]), verdict(2, &[Keep::Future])];
        stored.verdicts = &two;
        assert_eq!(may_delete(&id(1), &stored), Deletion::Allowed);
        assert!(says(&may_delete(&id(2), &stored), "restore latest"));
    }
}
