#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;
use crate::unit::data::moves;
use crate::unit::wal;

const DAY: Duration = Duration::from_hours(24);
/// The names of three replacements of one cluster.
const NEW: &str = "20261127T110000Z-restore-a-1";
const OLD: &str = "20261110T000000Z-older-epoch-a-1";
const OLDEST: &str = "20261020T000000Z-restore-a-1";
/// The only one of its cluster.
const OTHER: &str = "20261001T000000Z-unusable-b-1";

/// It has been up for longer than anything is kept.
fn noon() -> Moment {
    Moment {
        wall: "2026-11-27T12:00:00Z".parse().unwrap(),
        boot: "this".to_owned(),
        uptime: DAY * 100,
    }
}

struct Host {
    root: tempfile::TempDir,
    archive: Archive,
}

impl Host {
    fn new(log: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let log = log.map(|log| root.path().join(log));
        let dirs = DataDirs::new(root.path().join("default"), log);
        let limits = ArchiveSettings {
            keep: 2,
            min_age: DAY * 7,
            max_age: DAY * 30,
        };
        let archive = Archive {
            now: noon,
            short_of_space: |_| false,
            ..Archive::open(&dirs, limits).unwrap()
        };
        Self { root, archive }
    }

    fn with(names: &[&str]) -> Self {
        let host = Self::new(None);
        for name in names {
            host.put(name);
        }
        host
    }

    fn put(&self, name: &str) {
        let data = self.archive.archives.data(name).join("member");
        let ids = parts(name).ids.unwrap();
        let log = if self.archive.places().len() == 1 {
            data.join("wal")
        } else {
            self.archive.archives.log(name)
        };
        fs::create_dir_all(&log).unwrap();
        fs::create_dir_all(data.join("snap")).unwrap();
        fs::write(data.join("snap/db"), "db").unwrap();
        let file = log.join("0000000000000000-0000000000000000.wal");
        fs::write(file, wal::encode(ids.0, ids.1)).unwrap();
    }

    /// What is left in the archive, hidden names included.
    fn left(&self) -> Vec<String> {
        let entries = self.archive.archives.entries().unwrap().into_iter();
        let mut names: Vec<String> = entries.map(|(_, name)| name).collect();
        names.retain(|name| name != ".ages.json");
        names.sort();
        names
    }
}

fn names(removed: &[Removal]) -> Vec<(&str, RemovalCause)> {
    removed.iter().map(|one| (one.name.as_str(), one.cause)).collect()
}

fn refused(tried: Result<Vec<Removal>, ArchiveError>) -> String {
    match tried {
        Err(ArchiveError::Refused(why)) => why,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn what_is_there_and_why_it_stays() {
    use ArchiveKeep::{Count, MinAge, Newest, NewestOfCluster, NotADirectory};
    let host = Host::with(&[NEW, OLD, OLDEST, OTHER]);
    let link = "20261101T000000Z-restore-a-1";
    symlink(host.root.path(), host.archive.archives.data(link)).unwrap();
    fs::create_dir(host.archive.archives.data("by-hand")).unwrap();
    let list = host.archive.list().unwrap();
    let found: Vec<(&str, &[ArchiveKeep])> = list
        .iter()
        .map(|one| (one.name.as_str(), one.keep.as_slice()))
        .collect();
    let expected: [(&str, &[ArchiveKeep]); 5] = [
        (NEW, &[Newest, MinAge, Count]),
        (OLD, &[Count]),
        (link, &[NotADirectory]),
        (OLDEST, &[]),
        (OTHER, &[NewestOfCluster]),
    ];
    assert_eq!(found, expected);
    let old = list.get(1).unwrap();
    let unix = |text: &str| super::unix(text.parse().unwrap());
    assert_eq!(old.at, unix("2026-11-10T00:00:00Z"));
    assert_eq!(old.kept_until, Some(unix("2026-12-10T00:00:00Z")));
    assert_eq!(old.why.as_deref(), Some("older-epoch"));
    assert_eq!(
        (old.cluster_id, old.member_id),
        (Some(ClusterId(0xa)), Some(MemberId(1)))
    );
    assert_eq!(old.data_dir, Some(host.archive.archives.data(OLD)));
    assert_eq!(old.wal_dir, None);
    assert!(old.size_bytes.unwrap() > 0);
    assert!(list.iter().all(|one| one.name == OLD || one.kept_until.is_none()));
    assert_eq!(Host::new(None).archive.list(), Ok(Vec::new()), "no archive");
}

#[test]
fn what_retention_keeps_stays() {
    let host = Host::with(&[NEW, OLD, OLDEST, OTHER]);
    let (link, target) = ("20261009T000000Z-restore-a-1", host.root.path().join("elsewhere"));
    fs::create_dir(&target).unwrap();
    fs::write(target.join("file"), "x").unwrap();
    symlink(&target, host.archive.archives.data(link)).unwrap();
    fs::create_dir(host.archive.archives.data("by-hand")).unwrap();
    let gone = [(OLDEST, RemovalCause::Retention)];
    let before = host.left();
    assert_eq!(names(&host.archive.surplus().unwrap()), gone);
    assert_eq!(host.left(), before, "it was only asked");
    let removed = host.archive.prune().unwrap();
    assert_eq!(names(&removed), gone);
    assert!(removed.iter().all(|one| one.size_bytes.unwrap() > 0));
    assert_eq!(host.left(), [OTHER, link, OLD, NEW, "by-hand"]);
    assert!(target.join("file").exists(), "no link is followed");
    assert_eq!(host.archive.prune(), Ok(Vec::new()), "nothing is left to do");
}

#[test]
fn a_disk_that_is_nearly_full_keeps_only_the_count() {
    let (young, younger) = ("20261125T000000Z-restore-a-1", "20261126T000000Z-restore-a-1");
    let mut host = Host::with(&[young, younger, NEW]);
    assert_eq!(host.archive.prune(), Ok(Vec::new()));
    host.archive.short_of_space = |_| true;
    let gone = [(young, RemovalCause::Space)];
    assert_eq!(names(&host.archive.surplus().unwrap()), gone);
    assert_eq!(names(&host.archive.prune().unwrap()), gone);
    assert_eq!(host.left(), [younger, NEW]);
}

#[test]
fn exactly_what_is_named_goes() {
    let host = Host::with(&[NEW, OLD, OLDEST, OTHER]);
    let link = "20261101T000000Z-restore-a-1";
    symlink(host.root.path(), host.archive.archives.data(link)).unwrap();
    let all = host.left();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (name, force, says) in [
        (NEW, false, "is the newest one, and"),
        (OTHER, false, "is the newest one of its cluster"),
        (link, true, "is a symbolic link or a file"),
    ] {
        for ask in [Archive::named, Archive::remove] {
            let why = refused(ask(&host.archive, &named(&[OLD, name]), force));
            assert!(
                why.starts_with(&format!("{name} {says}")) && why.ends_with("nothing was removed"),
                "{why}"
            );
        }
    }
    assert_eq!(host.left(), all, "one that is refused keeps the others");
    let order = |name: &'static str| [(name, RemovalCause::Order)];
    let twice = named(&[OLD, OLD, "20200101T000000Z-restore-a-1"]);
    assert_eq!(names(&host.archive.named(&twice, false).unwrap()), order(OLD));
    assert_eq!(host.left(), all, "it was only asked");
    assert_eq!(names(&host.archive.remove(&twice, false).unwrap()), order(OLD));
    assert_eq!(host.archive.remove(&twice, false), Ok(Vec::new()), "it is gone");
    assert_eq!(host.left(), [OTHER, OLDEST, link, NEW]);
    let forced = host.archive.remove(&named(&[NEW]), true).unwrap();
    assert_eq!(names(&forced), order(NEW));
    assert_eq!(host.left(), [OTHER, OLDEST, link]);
    assert_eq!(
        host.archive.remove(&named(&["..", "by-hand"]), true),
        Ok(Vec::new())
    );
    assert!(host.root.path().exists());
}

#[test]
fn nothing_goes_while_another_one_works_on_it() {
    let host = Host::with(&[NEW, OLD, OLDEST]);
    let held = host.archive.archives.lock().unwrap().unwrap();
    assert!(refused(host.archive.prune()).contains("is in use"));
    assert!(refused(host.archive.remove(&[OLD.to_owned()], false)).contains("is in use"));
    assert_eq!(host.left().len(), 3);
    drop(held);
    assert_eq!(names(&host.archive.prune().unwrap()).len(), 1);
}

/// Dies after each rename. Nothing is left in the archive that looks whole and is not.
#[test]
fn a_removal_is_finished_after_a_death_at_each_step() {
    let wanted = [OLD.to_owned()];
    for after in 1..=2 {
        let host = Host::new(Some("disk/log"));
        host.put(NEW);
        host.put(OLD);
        moves::dies_after(Some(after));
        let died = host.archive.remove(&wanted, false);
        moves::dies_after(None);
        assert!(
            matches!(&died, Err(ArchiveError::Failed(why)) if why.contains("died")),
            "{died:?}"
        );
        let list = host.archive.list().unwrap();
        let half: Vec<_> = list.iter().filter(|one| one.name == OLD).collect();
        assert_eq!(half.len(), usize::from(after == 1), "{after}: {half:?}");
        assert!(
            half.iter()
                .all(|one| one.data_dir.is_none() && one.wal_dir.is_some())
        );
        assert_eq!(host.left().len(), 4, "{after}: the rest is there");
        let again = host.archive.remove(&wanted, false).unwrap();
        assert_eq!(again.len(), usize::from(after == 1), "{after}");
        assert_eq!(host.left(), [NEW.to_owned(), format!("{NEW}.wal")], "{after}");
    }
}

#[test]
fn only_a_directory_is_an_archive() {
    let root = tempfile::tempdir().unwrap();
    let dirs = DataDirs::new(root.path().join("default"), None);
    let limits = Host::new(None).archive.limits;
    symlink("/", root.path().join("etcd-agent-archive")).unwrap();
    let why = Archive::open(&dirs, limits).unwrap_err();
    assert!(why.contains("expected a directory"), "{why}");
}

#[test]
fn names_of_the_agent() {
    for (name, is) in [
        (NEW, true),
        ("20261127T110000Z", true),
        ("by-hand", false),
        ("..", false),
        ("20261127T110000Z-x/../y", false),
        ("20261127T110000Z-\u{1b}[2J", false),
    ] {
        assert_eq!(is_archive_name(name), is, "{name:?}");
    }
}
