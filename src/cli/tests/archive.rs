//! `archive list` and `archive prune` in the tree of a host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::json;
use tempfile::TempDir;

use super::fixture::{NOW, settings_tree};
use super::schema::{listed, object, objection};
use crate::cli::archive::{ArchiveVerb, Pruned};
use crate::cli::exit::Outcome;
use crate::cli::{Cli, Exit, Verb, archive, archive_table};
use crate::model::{ClusterId, MemberId, UnixMs};
use crate::paths::Paths;
use crate::unit::data::{ArchiveKeep, Archived, Removal, RemovalCause};

const NEW: &str = "20200103T000000Z-restore-a-1";
const OLD: &str = "20200102T000000Z-restore-a-1";
const OLDEST: &str = "20200101T000000Z-restore-a-1";
const LINK: &str = "20200101T120000Z-restore-a-1";

struct Host {
    root: TempDir,
    paths: Paths,
}

impl Host {
    /// It keeps one directory. A link to something and what somebody has put there are in its archive, too.
    fn new() -> Self {
        let text = "[node]\nname = \"n1\"\n[etcd]\ndata_dir = \"/var/lib/etcd/default\"\n\
                    [archive]\nkeep = 1\nmin_age = \"1s\"\n";
        let (root, paths) = settings_tree(text);
        let host = Self { root, paths };
        for name in [NEW, OLD, OLDEST] {
            fill(&host.archive().join(name));
        }
        fill(&host.root.path().join("elsewhere"));
        symlink(host.root.path().join("elsewhere"), host.archive().join(LINK)).unwrap();
        fs::create_dir(host.archive().join("by-hand")).unwrap();
        host
    }

    fn archive(&self) -> PathBuf {
        self.root.path().join("var/lib/etcd/etcd-agent-archive")
    }

    fn left(&self) -> Vec<String> {
        names(&self.archive())
    }

    /// Without a terminal.
    fn run(&self, line: &str) -> Outcome {
        let words = ["etcd-agent", "archive"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Archive(ArchiveVerb::Prune(args)) => archive::prune(&self.paths, &args, false),
            Verb::Archive(verb) => archive::run(&self.paths, &verb),
            other => unreachable!("{other:?}"),
        }
    }

    fn refuses(&self, line: &str) -> String {
        let failure = self.run(line).unwrap_err();
        assert_eq!(failure.exit, Exit::Refused, "{line}: {failure}");
        failure.text
    }
}

fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("member/snap")).unwrap();
    fs::write(dir.join("member/snap/db"), "db").unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_retention_no_longer_keeps_goes_without_a_question() {
    let host = Host::new();
    let before = host.left();
    assert_eq!(host.run("list"), Ok(Exit::Ok));
    assert_eq!(host.run("prune --dry-run"), Ok(Exit::Ok));
    assert_eq!(host.left(), before);
    assert_eq!(host.run("prune -o json"), Ok(Exit::Ok));
    assert_eq!(host.left(), [LINK, NEW, "by-hand"]);
    assert!(host.root.path().join("elsewhere/member/snap/db").exists());
    assert_eq!(host.run("prune"), Ok(Exit::Ok), "nothing is left to do");
    assert_eq!(host.left(), [LINK, NEW, "by-hand"]);
}

#[test]
fn what_is_named_goes_with_a_word() {
    let host = Host::new();
    let before = host.left();
    let says = host.refuses(&format!("prune {OLD}"));
    assert!(says.contains("--yes"), "{says}");
    assert_eq!(host.run(&format!("prune {OLD} --dry-run")), Ok(Exit::Ok));
    let says = host.refuses(&format!("prune {OLD} {NEW} --yes"));
    assert!(says.contains(NEW) && says.contains("--force"), "{says}");
    let says = host.refuses(&format!("prune {LINK} --yes --force"));
    assert!(says.contains("symbolic link"), "{says}");
    assert_eq!(host.left(), before);
    for _ in 0..2 {
        assert_eq!(host.run(&format!("prune {OLD}.wal --yes")), Ok(Exit::Ok));
        assert_eq!(host.left(), [OLDEST, LINK, NEW, "by-hand"]);
    }
    assert_eq!(host.run(&format!("prune {NEW} --yes --force")), Ok(Exit::Ok));
    assert_eq!(host.left(), [OLDEST, LINK, "by-hand"]);
}

#[test]
fn an_archive_at_a_former_place_is_named() {
    let host = Host::new();
    let before = host.left();
    let former = host.root.path().join("mnt/old");
    fill(&former.join("etcd-agent-archive").join(NEW));
    let place = format!("--data-dir {}", former.join("default").display());
    assert_eq!(host.run(&format!("list {place}")), Ok(Exit::Ok));
    assert_eq!(host.run(&format!("prune {place}")), Ok(Exit::Ok));
    assert_eq!(
        names(&former.join("etcd-agent-archive")),
        [NEW],
        "the newest stays"
    );
    assert_eq!(
        host.run(&format!("prune {NEW} --force --yes {place}")),
        Ok(Exit::Ok)
    );
    assert!(names(&former.join("etcd-agent-archive")).is_empty());
    assert_eq!(host.left(), before);
}

#[test]
fn a_host_without_an_archive_or_a_configuration() {
    let host = Host::new();
    fs::remove_dir_all(host.archive()).unwrap();
    assert_eq!(host.run("list"), Ok(Exit::Ok));
    assert_eq!(host.run("prune"), Ok(Exit::Ok));
    assert_eq!(host.run(&format!("prune {OLD} --yes")), Ok(Exit::Ok));
    fs::write(host.archive(), "").unwrap();
    let failure = host.run("list").unwrap_err();
    assert!(failure.exit == Exit::Failed && failure.text.contains("expected a directory"));
    fs::remove_file(host.paths.config_file()).unwrap();
    assert_eq!(host.run("list").unwrap_err().exit, Exit::Usage);
}

fn archived(name: &str, days: u64, size_bytes: Option<u64>, keep: &[ArchiveKeep]) -> Archived {
    Archived {
        name: name.to_owned(),
        data_dir: Some(Path::new("/var/lib/etcd/etcd-agent-archive").join(name)),
        wal_dir: None,
        at: UnixMs(NOW.0 - days * 86_400_000),
        why: Some("restore".to_owned()),
        cluster_id: Some(ClusterId(0xcafe)),
        member_id: Some(MemberId(0xa1)),
        size_bytes,
        keep: keep.to_vec(),
        kept_until: None,
    }
}

fn some() -> Vec<Archived> {
    use ArchiveKeep::{Count, MinAge, Newest, NotADirectory};
    let mut list = vec![
        archived(
            "20260226T120400Z-restore-cafe-a1",
            3,
            Some(3 << 29),
            &[Newest, MinAge, Count],
        ),
        archived(
            "20260211T120400Z-older-epoch-cafe-a1",
            18,
            Some(12_345_678),
            &[Count],
        ),
        archived(
            "20260110T120400Z-unusable-unknown-unknown",
            50,
            None,
            &[NotADirectory],
        ),
        archived("20260109T120400Z-removed-beef-b2", 51, Some(1 << 20), &[]),
    ];
    if let Some(counted) = list.get_mut(1) {
        counted.kept_until = Some(UnixMs(NOW.0 + 12 * 86_400_000));
    }
    list
}

#[test]
fn the_list_says_why_each_is_kept() {
    let place = Path::new("/var/lib/etcd/etcd-agent-archive");
    insta::assert_snapshot!("archives", archive_table::render(&some(), &[place], NOW));
    assert_eq!(
        archive_table::render(&[], &[place, Path::new("/wal/etcd-agent-archive")], NOW),
        "Nothing is archived in /var/lib/etcd/etcd-agent-archive and /wal/etcd-agent-archive.\n"
    );
    let seen = listed("archives", "archives", &some());
    assert_eq!(seen["archives"][0]["keep"], json!(["newest", "min-age", "count"]));
    assert_eq!(seen["archives"][1]["kept_until"], json!(NOW.0 + 12 * 86_400_000));
    assert_eq!(seen["archives"][2].get("size_bytes"), None);
    let mut bad = seen;
    bad["archives"][0]["keep"] = json!(["perhaps"]);
    assert!(objection("archives", &bad).is_some());
}

#[test]
fn what_was_removed_is_said() {
    let removal = |name: &str, size_bytes, cause| Removal {
        name: name.to_owned(),
        size_bytes,
        cause,
    };
    let one = vec![removal("a", Some(3 << 29), RemovalCause::Order)];
    let two = vec![
        removal("a", Some(1 << 20), RemovalCause::Retention),
        removal("b", None, RemovalCause::Space),
    ];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let said = [
        archive_table::message(&[], &[], false),
        archive_table::message(&[], &names(&["x", "y"]), false),
        archive_table::message(&one, &names(&["a", "y"]), false),
        archive_table::message(&two, &[], false),
        archive_table::message(&two, &[], true),
        archive_table::question(&one),
        archive_table::removals(&two, true),
        archive_table::removals(&one, false),
    ];
    insta::assert_snapshot!("archives_removed", said.join("\n"));
    let pruned = Pruned {
        changed: true,
        freed_bytes: archive_table::bytes(&two),
        message: archive_table::message(&two, &[], false),
        archives: two,
    };
    let seen = object("change", pruned);
    assert_eq!(seen["freed_bytes"], 1 << 20);
    assert_eq!(seen["archives"][1], json!({"name": "b", "cause": "space"}));
    let mut bad = seen;
    bad["archives"][0].as_object_mut().unwrap().remove("cause");
    assert!(objection("change", &bad).is_some());
}
