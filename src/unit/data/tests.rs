#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::config::ArchiveSettings;
use crate::model::{BackupId, ClusterId, Epoch, MemberId};
use crate::unit::wal;

mod archive_bounds;
mod damaged;
mod log_elsewhere;
mod staging;

pub(super) struct World {
    dir: tempfile::TempDir,
    pub(super) owner: Owner,
}

const OLD: (ClusterId, MemberId) = (ClusterId(1), MemberId(2));
const NEW: (ClusterId, MemberId) = (ClusterId(3), MemberId(4));

/// The clock stands still: names of archived directories have the second in them.
fn noon() -> jiff::Timestamp {
    "2026-11-27T12:00:00Z".parse().unwrap()
}

impl World {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner {
            dirs: DataDirs::new(dir.path().join("default"), None),
            archive: ArchiveSettings {
                keep: 3,
                min_age: Duration::from_hours(7 * 24),
                max_age: Duration::from_hours(30 * 24),
            },
            restore: dir.path().join("restore"),
            binary: None,
            tools: tool::Programs::anywhere(vec![dir.path().join("bin")]),
            uid: rustix::process::geteuid().as_raw(),
            started: None,
            assigned: None,
            mounts: (String::new(), String::new()),
            now: || ages::Moment {
                wall: noon(),
                boot: "this".to_owned(),
                uptime: Duration::from_hours(10 * 24),
            },
            short_of_space: |_| false,
            may_write: |_| Ok(()),
            held_by: Ok(None),
            env_file: dir.path().join("etcd.env"),
            proc: dir.path().join("proc"),
            origins: |_| Err("no systemd here".to_owned()),
            starts: Vec::new,
            tls: Vec::new(),
        };
        Self { dir, owner }
    }

    fn with_data(ids: (ClusterId, MemberId)) -> Self {
        let world = Self::new();
        fill(world.owner.dirs.data(), ids);
        world
    }

    fn stage(&self, ids: (ClusterId, MemberId)) {
        fill_at(&stage::dirs(&self.owner, Epoch(2)), ids);
        stage::finish(&self.owner, &marker(&self.owner)).unwrap();
    }

    fn ask(&self, request: DataRequest) -> DataReport {
        let file = RequestFile {
            id: "x".to_owned(),
            boot_id: String::new(),
            request,
        };
        self.owner.answer(&file, false).report.unwrap()
    }

    fn replace(&self, staged: bool) -> DataReport {
        self.replace_of(OLD, staged)
    }

    fn replace_of(&self, (cluster_id, member_id): (ClusterId, MemberId), staged: bool) -> DataReport {
        self.ask(DataRequest::Replace {
            epoch: Epoch(2),
            why: "restore".to_owned(),
            staged,
            cluster_id,
            member_id,
        })
    }

    fn archived(&self) -> Vec<PathBuf> {
        match fs::read_dir(archive::dir(&self.owner).unwrap()) {
            Ok(entries) => entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_dir())
                .collect(),
            Err(_) => Vec::new(),
        }
    }

    fn state(&self) -> DataState {
        inspect::inspect(&self.owner).unwrap()
    }
}

fn fill(dir: &Path, ids: (ClusterId, MemberId)) {
    fill_at(&DataDirs::new(dir.to_owned(), None), ids);
}

fn fill_at(dirs: &DataDirs, (cluster, member): (ClusterId, MemberId)) {
    fs::create_dir_all(dirs.log()).unwrap();
    fs::create_dir_all(dirs.snap()).unwrap();
    let wal = wal::encode(cluster, member);
    fs::write(dirs.log().join("0000000000000000-0000000000000000.wal"), wal).unwrap();
    fs::write(dirs.database(), "db").unwrap();
}

fn backup() -> BackupId {
    BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()
}

/// The marker of what is staged.
fn marker(owner: &Owner) -> stage::Marker {
    stage::Marker {
        inode: fs::metadata(stage::dirs(owner, Epoch(2)).data()).unwrap().ino(),
        epoch: Epoch(2),
        backup: backup(),
        cluster_id: NEW.0,
        member_id: NEW.1,
    }
}

fn present((cluster_id, member_id): (ClusterId, MemberId)) -> DataState {
    DataState::Present {
        cluster_id,
        member_id,
    }
}

#[test]
fn what_a_directory_is() {
    let world = World::new();
    let dir = world.owner.dirs.data();
    assert_eq!(world.state(), DataState::Missing, "not there");
    fs::create_dir_all(dir.join("lost+found")).unwrap();
    assert_eq!(world.state(), DataState::Missing, "as mkfs leaves it");
    let unusable = |says: &str| match world.state() {
        DataState::Unusable { why, .. } => assert!(why.contains(says), "{why}"),
        other => unreachable!("{says}: {other:?}"),
    };
    fs::write(dir.join("x"), "").unwrap();
    unusable("no member directory");
    fs::create_dir(dir.join("member")).unwrap();
    unusable("no WAL");
    fill(dir, OLD);
    assert_eq!(world.state(), present(OLD));
    fs::write(dir.join("member/snap/db"), "").unwrap();
    unusable("is empty");
    fs::remove_file(dir.join("member/snap/db")).unwrap();
    unusable("no database");
    fs::write(dir.join("member/snap/db"), "db").unwrap();
    fs::write(
        dir.join("member/wal/0000000000000000-0000000000000000.wal"),
        "junk",
    )
    .unwrap();
    unusable("ends before");
    fs::remove_file(dir.join("member/wal/0000000000000000-0000000000000000.wal")).unwrap();
    unusable("no WAL file");
}

#[test]
fn archived_without_a_restore() {
    let world = World::with_data(OLD);
    let report = world.replace(false);
    assert_eq!((report.error, report.data), (None, DataState::Missing));
    let archived = world.archived();
    assert_eq!(archived.len(), 1);
    assert!(
        archived[0].to_string_lossy().ends_with("Z-restore-1-2"),
        "{archived:?}"
    );
    assert!(archived[0].join("member/snap/db").exists());
    assert_eq!(world.replace(false).error, None, "again: nothing to do");
    assert_eq!(world.archived().len(), 1);
}

/// An operator puts other data there after the agent has looked. Here damaged data of the member itself still
/// looks intact.
#[test]
fn rule_5_only_the_data_that_was_decided_on_is_moved() {
    for staged in [false, true] {
        let world = World::with_data(OLD);
        if staged {
            world.stage(NEW);
        }
        let report = world.replace_of(NEW, staged);
        let error = report.error.unwrap();
        assert!(error.contains("nothing was moved"), "{error}");
        assert!(world.archived().is_empty() && world.owner.dirs.data().join("member/snap/db").exists());
        assert_eq!(world.replace(staged).error, None);
        assert_eq!(world.archived().len(), 1);
    }
}

#[test]
fn swapped_for_a_staged_restore() {
    let world = World::with_data(OLD);
    world.stage(NEW);
    assert_eq!(
        world.ask(DataRequest::Inspect(Inspection::default())).staged,
        Some((Epoch(2), backup()))
    );
    let report = world.replace(true);
    assert_eq!(
        (report.error, report.data, report.staged),
        (None, present(NEW), None)
    );
    assert_eq!(world.archived().len(), 1);
}

#[test]
fn nothing_is_moved_before_the_restore_is_complete() {
    for damage in ["no marker", "another member", "no directory"] {
        let world = World::with_data(OLD);
        match damage {
            "no marker" => fill(stage::dirs(&world.owner, Epoch(2)).data(), NEW),
            "another member" => world.stage(OLD),
            _ => {
                world.stage(NEW);
                fs::remove_dir_all(stage::dirs(&world.owner, Epoch(2)).data()).unwrap();
            }
        }
        let report = world.replace(true);
        assert!(report.error.unwrap().contains("nothing was moved"), "{damage}");
        assert_eq!(report.data, present(OLD), "{damage}");
        assert!(world.archived().is_empty(), "{damage}");
    }
}

#[test]
fn finished_after_a_crash_at_each_step() {
    // After the old data was archived.
    let world = World::with_data(OLD);
    world.stage(NEW);
    archive::put(&world.owner.dirs, "restore", &(world.owner.now)()).unwrap();
    assert_eq!(
        world.ask(DataRequest::Inspect(Inspection::default())).data,
        DataState::Missing
    );
    let report = world.replace(true);
    assert_eq!((report.error, report.data), (None, present(NEW)));
    assert_eq!(world.archived().len(), 1);

    // After the swap, before the marker was removed: the new data is not archived.
    let world = World::new();
    world.stage(NEW);
    fs::rename(
        stage::dirs(&world.owner, Epoch(2)).data(),
        world.owner.dirs.data(),
    )
    .unwrap();
    let report = world.replace(true);
    assert_eq!((report.error, report.data), (None, present(NEW)));
    assert!(world.archived().is_empty());
    // After the marker was removed: refused, and still nothing is moved.
    let report = world.replace(true);
    assert!(report.error.is_some());
    assert_eq!(report.data, present(NEW));
    assert!(world.archived().is_empty());
}

#[test]
fn refused_while_etcd_holds_its_database() {
    let world = World::with_data(OLD);
    let held = inspect::lock(&world.owner.dirs).unwrap();
    let report = world.replace(false);
    assert!(report.error.unwrap().contains("in use"));
    assert_eq!(report.data, present(OLD));
    drop(held);
    assert_eq!(world.replace(false).error, None);
}

#[test]
fn a_member_that_has_run_must_remember_something() {
    let mut world = World::with_data(OLD);
    assert_eq!(world.state(), present(OLD), "it may just have been made");
    world.owner.started = Some(NEW);
    assert_eq!(world.state(), present(OLD), "another member has run");
    world.owner.started = Some(OLD);
    assert!(matches!(world.state(), DataState::Unusable { why, .. } if why.contains("remembers nothing")));
    let wal = wal::encode_with(OLD.0, OLD.1, &[(2, b"entry")]);
    let file = world
        .owner
        .dirs
        .data()
        .join("member/wal/0000000000000000-0000000000000000.wal");
    fs::write(file, wal).unwrap();
    assert_eq!(world.state(), present(OLD));
}

#[test]
fn a_request_is_carried_out_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    assert!(!was_done(&path, "a"));
    let world = World::new();
    let file = RequestFile {
        id: "a".to_owned(),
        boot_id: String::new(),
        request: DataRequest::Inspect(Inspection::default()),
    };
    fs::write(
        &path,
        serde_json::to_vec(&world.owner.answer(&file, false)).unwrap(),
    )
    .unwrap();
    assert!(was_done(&path, "a"));
    assert!(!was_done(&path, "b"));
}

#[test]
fn h08_an_etcd_that_is_too_old_is_reported() {
    let world = World::new();
    let bin = world.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (version, expected) in [("3.4.23", Some("3.4.23")), ("3.5.16", None)] {
        let script = format!("#!/bin/sh\necho 'etcd Version: {version}'\necho 'Git SHA: x'\n");
        fs::write(bin.join("fresh"), script).unwrap();
        fs::set_permissions(bin.join("fresh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(bin.join("fresh"), bin.join("etcd")).unwrap();
        for base in [false, true] {
            let report = world.ask(DataRequest::Inspect(Inspection {
                base,
                ..Inspection::default()
            }));
            assert_eq!(report.etcd_too_old.as_deref(), expected, "{version}");
            assert_eq!(report.error, None);
        }
    }
}

/// The last starts of etcd, with what they logged.
type Starts = fn() -> Vec<starts::Start>;

#[test]
fn a_report_says_what_keeps_the_data_from_the_archive_and_older_ones_are_read() {
    let mut world = World::with_data(OLD);
    let ask = |world: &World| world.ask(DataRequest::Inspect(Inspection::default()));
    assert_eq!(ask(&world).archive_trouble, None);
    world.owner.may_write = |_| Err(std::io::ErrorKind::ReadOnlyFilesystem.into());
    let report = ask(&world);
    assert!(report.archive_trouble.is_some() && report.data == present(OLD));
    let mut text = serde_json::to_value(&report).unwrap();
    text.as_object_mut().unwrap().remove("archive_trouble");
    let older: DataReport = serde_json::from_value(text).unwrap();
    assert_eq!(older.archive_trouble, None);
}
