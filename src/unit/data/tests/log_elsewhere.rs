//! A member whose write-ahead log is not in its data directory (`etcd.wal_dir`).

use super::*;
use crate::unit::mounts::{HeldBy, HeldDir, Mount};

const FILE: &str = "0000000000000000-0000000000000000.wal";

/// The log is in a directory of its own, as on another disk.
fn world() -> World {
    let mut world = World::new();
    let root = world.dir.path().to_owned();
    fs::create_dir(root.join("disk")).unwrap();
    world.owner.dirs = DataDirs::new(root.join("default"), Some(root.join("disk/log")));
    world
}

fn with_data(ids: (ClusterId, MemberId)) -> World {
    let world = world();
    fill_at(&world.owner.dirs, ids);
    world
}

/// The member has run, and its log holds something.
fn that_has_run() -> World {
    let mut world = with_data(OLD);
    remember(&world, OLD);
    world.owner.started = Some(OLD);
    world.owner.assigned = Some(world.owner.dirs.clone());
    world
}

fn remember(world: &World, (cluster, member): (ClusterId, MemberId)) {
    let wal = wal::encode_with(cluster, member, &[(2, b"entry")]);
    fs::write(world.owner.dirs.log().join(FILE), wal).unwrap();
}

fn log(world: &World) -> &Path {
    world.owner.dirs.wal().unwrap()
}

/// The names below a directory, without the agent's own.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

/// The names in both archives.
fn archived(world: &World) -> [Vec<String>; 2] {
    let archived_at = |dir: &Path| names(&dir.with_file_name("etcd-agent-archive"));
    [archived_at(world.owner.dirs.data()), archived_at(log(world))]
}

fn why(state: &Result<DataState, String>) -> &str {
    match state {
        Ok(DataState::Unusable { why, .. }) | Err(why) => why,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn data_and_log_are_one() {
    let world = world();
    let look = || inspect::inspect(&world.owner);
    assert_eq!(look(), Ok(DataState::Missing), "nothing of both");
    fs::create_dir_all(log(&world).join("lost+found")).unwrap();
    assert_eq!(look(), Ok(DataState::Missing), "as mkfs leaves it");
    fs::remove_dir_all(log(&world)).unwrap();
    fill_at(&world.owner.dirs, OLD);
    assert_eq!(look(), Ok(present(OLD)));

    let away = log(&world).with_file_name("away");
    fs::rename(log(&world), &away).unwrap();
    let state = look();
    assert!(state.is_ok() && why(&state).contains("their log in"), "{state:?}");
    fs::rename(&away, log(&world)).unwrap();

    fs::remove_dir_all(world.owner.dirs.data()).unwrap();
    let state = look();
    assert!(why(&state).contains("has a log, and its data in"), "{state:?}");
    assert_eq!(state.unwrap().whose(), Some(OLD), "the log says whose it is");

    fs::remove_file(log(&world).join(FILE)).unwrap();
    fs::write(log(&world).join("x"), "").unwrap();
    assert!(matches!(look(), Ok(DataState::Unusable { member: None, .. })));
    fs::remove_dir_all(log(&world)).unwrap();
    fs::write(log(&world), "").unwrap();
    assert!(why(&look()).contains("is not a directory"));
}

/// A log that begins after the first entry continues a snapshot of its data.
#[test]
fn a_log_of_other_data_is_not_usable() {
    let world = with_data(OLD);
    fs::rename(
        log(&world).join(FILE),
        log(&world).join("0000000000000001-0000000000000004.wal"),
    )
    .unwrap();
    let state = inspect::inspect(&world.owner);
    assert!(why(&state).contains("does not belong to the data"), "{state:?}");
    fs::write(
        world
            .owner
            .dirs
            .snap()
            .join("0000000000000002-0000000000000004.snap"),
        "",
    )
    .unwrap();
    assert_eq!(world.state(), present(OLD));
}

#[test]
fn a_log_of_another_owner_is_unknown() {
    let mut world = with_data(OLD);
    world.owner.uid += 1;
    assert!(
        inspect::inspect(&world.owner)
            .unwrap_err()
            .contains("belongs to uid")
    );
}

#[test]
fn a_log_on_a_disk_that_is_not_mounted_is_unknown_and_not_lost() {
    let root = "22 1 8:1 / / rw - ext4 /dev/a rw\n".to_owned();
    let mut world = that_has_run();
    let disk = log(&world).parent().unwrap().canonicalize().unwrap();
    let mounted = format!("{root}23 22 8:2 / {} rw - xfs /dev/b rw\n", disk.display());
    let file = RequestFile {
        id: "x".to_owned(),
        boot_id: String::new(),
        request: DataRequest::Inspect(Inspection::default()),
    };
    world.owner.mounts.1.clone_from(&mounted);
    let held_by = world
        .owner
        .answer(&file, false)
        .held_by
        .expect("it is remembered");
    let held = held_by.log.clone().unwrap();
    assert_eq!(
        (held.dir.as_path(), held.mount.source.as_str()),
        (log(&world), "/dev/b")
    );
    let text = serde_json::to_string(&held_by).unwrap();
    assert_eq!(serde_json::from_str::<HeldBy>(&text).unwrap(), held_by);

    world.owner.held_by = Ok(Some(held_by));
    fs::remove_dir_all(log(&world)).unwrap();
    assert!(
        matches!(world.state(), DataState::Unusable { .. }),
        "lost on the same disk"
    );
    world.owner.mounts.1.clone_from(&root);
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("/dev/b (xfs)"), "{unknown}");
    assert_eq!(world.owner.answer(&file, false).held_by, None);
    fs::remove_dir_all(world.owner.dirs.data()).unwrap();
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(
        unknown.contains("/dev/b (xfs)"),
        "the data are gone too: {unknown}"
    );

    world.owner.mounts.0 = format!("/dev/b {} xfs defaults 0 2\n", disk.display());
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("/etc/fstab"), "{unknown}");
}

#[test]
fn a_place_where_etcd_cannot_make_a_log_is_unknown() {
    let mut world = world();
    fs::create_dir(log(&world)).unwrap();
    let point = log(&world).canonicalize().unwrap();
    world.owner.mounts.1 = format!("23 22 8:2 / {} rw - xfs /dev/b rw\n", point.display());
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("is a mount point"), "{unknown}");
    world.owner.mounts.1.clear();
    fs::remove_dir_all(log(&world).parent().unwrap()).unwrap();
    assert!(inspect::inspect(&world.owner).is_err(), "its parent is not there");
}

#[test]
fn a_log_in_another_place_than_configured_is_unknown_and_not_lost() {
    let held = |dir: &Path, source: &str| HeldDir {
        dir: dir.to_owned(),
        mount: Mount {
            point: "/".into(),
            root: "/".to_owned(),
            kind: "ext4".to_owned(),
            source: source.to_owned(),
        },
    };
    // The configuration has changed, and the agent does not follow it.
    let mut world = that_has_run();
    let moved = log(&world).with_file_name("new");
    let former = world.owner.dirs.clone();
    let to = |dirs: &DataDirs, log: Option<PathBuf>| DataDirs::new(dirs.data().to_owned(), log);
    for other in [Some(moved.clone()), None] {
        world.owner.dirs = to(&former, other);
        let unknown = inspect::inspect(&world.owner).unwrap_err();
        assert!(unknown.contains("put etcd.wal_dir back"), "{unknown}");
        assert!(replace::replace(&world.owner, Epoch(2), "removed", false, OLD).is_err());
    }
    // Root has accepted it, and the agent follows.
    world.owner.dirs = to(&former, Some(moved.clone()));
    world.owner.assigned = Some(world.owner.dirs.clone());
    world.owner.held_by = Ok(Some(HeldBy {
        data: held(former.data(), "/dev/a"),
        log: Some(held(&former.log(), "/dev/b")),
    }));
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("move it there"), "{unknown}");
    fs::rename(former.log(), &moved).unwrap();
    assert_eq!(world.state(), present(OLD), "moved by hand");

    // A member that has left may have its log anywhere when it comes in again.
    let left = |world: &mut World, log: PathBuf| {
        assert_eq!(world.replace(false).error, None);
        world.owner.dirs = to(&former, Some(log));
        world.owner.assigned = Some(world.owner.dirs.clone());
    };
    let was = log(&world).to_owned();
    let held_by = |log: &Path, source: &str| HeldBy {
        data: held(former.data(), "/dev/a"),
        log: Some(held(log, source)),
    };
    world.owner.mounts.1 = "22 1 8:1 / / rw - ext4 /dev/a rw\n".to_owned();
    world.owner.held_by = Ok(Some(held_by(&was, "/dev/a")));
    left(&mut world, former.log());
    assert_eq!(world.state(), DataState::Missing);
    world.owner.held_by = Ok(Some(held_by(&was, "/dev/b")));
    assert!(inspect::inspect(&world.owner).is_err(), "its disk is not mounted");

    // It was in the data directory before.
    let mut world = that_has_run();
    fs::rename(log(&world), world.owner.dirs.own_log()).unwrap();
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("member/wal: stop etcd"), "{unknown}");
    world.owner.started = None;
    assert!(inspect::inspect(&world.owner).is_err(), "also without a memory");
}

#[test]
fn archived_under_one_name() {
    let world = with_data(OLD);
    assert_eq!(world.replace(false).error, None);
    assert_eq!(world.state(), DataState::Missing);
    let [data, log] = archived(&world);
    assert!(data[0].ends_with("Z-restore-1-2"), "{data:?}");
    assert_eq!(log, [format!("{}.wal", data[0])]);
    assert_eq!(
        (data.len(), world.replace(false).error),
        (1, None),
        "nothing is left to do"
    );
}

/// Both are in one directory, and so are their archives.
#[test]
fn archived_next_to_each_other() {
    let mut world = World::new();
    let root = world.dir.path().to_owned();
    world.owner.dirs = DataDirs::new(root.join("default"), Some(root.join("log")));
    for _ in 0..2 {
        fill_at(&world.owner.dirs, OLD);
        assert_eq!(world.replace(false).error, None);
    }
    let found = names(&root.join("etcd-agent-archive"));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        found[0].ends_with("-1-2") && found[1].ends_with("-1-2-2"),
        "{found:?}"
    );
    assert!(found.contains(&format!("{}.wal", found[0])) && found.contains(&format!("{}.wal", found[1])));
}

#[test]
fn only_the_log_of_whom_was_decided_on_is_moved() {
    let world = with_data(OLD);
    fs::remove_dir_all(world.owner.dirs.data()).unwrap();
    let error = world.replace_of(NEW, false).error.unwrap();
    assert!(error.contains("nothing was moved"), "{error}");
    assert!(log(&world).join(FILE).exists());
    assert_eq!(world.replace(false).error, None);
    assert_eq!(archived(&world)[1].len(), 1);
}

/// Nothing is moved before both can be.
#[test]
fn no_data_is_archived_without_a_place_for_its_log() {
    let world = with_data(OLD);
    fs::write(log(&world).with_file_name("etcd-agent-archive"), "").unwrap();
    assert!(world.replace(false).error.is_some());
    assert_eq!(world.state(), present(OLD));
    assert_eq!(archived(&world)[0], Vec::<String>::new());
}

/// Dies after each rename; the next run ends in the same state, and nothing is lost.
#[test]
fn an_archival_is_finished_after_a_death_at_each_step() {
    for after in 1..=2 {
        let world = with_data(OLD);
        moves::dies_after(Some(after));
        assert!(world.replace(false).error.unwrap().contains("died"), "{after}");
        moves::dies_after(None);
        let left = world.state();
        assert_eq!(left == DataState::Missing, after == 2, "{after}: {left:?}");
        assert_eq!(world.replace(false).error, None, "{after}");
        assert_eq!(world.state(), DataState::Missing);
        let [data, log] = archived(&world);
        assert_eq!(
            (data.len(), &log),
            (1, &vec![format!("{}.wal", data[0])]),
            "{after}"
        );
    }
}

#[test]
fn a_restore_is_finished_after_a_death_at_each_step() {
    let inspected = DataRequest::Inspect(Inspection::default());
    for after in 1..=4 {
        let world = with_data(OLD);
        world.stage(NEW);
        moves::dies_after(Some(after));
        assert!(world.replace(true).error.unwrap().contains("died"), "{after}");
        moves::dies_after(None);
        let report = world.ask(inspected.clone());
        let staged = report.staged.is_some();
        match after {
            1 => assert_eq!((report.data.whose(), staged), (Some(OLD), true)),
            2 => assert_eq!((report.data, staged), (DataState::Missing, true)),
            3 => {
                assert!(matches!(report.data, DataState::Unusable { member: None, .. }));
                assert!(staged, "the rest of it");
            }
            _ => assert_eq!((report.data, staged), (present(NEW), false)),
        }
        let report = world.replace(true);
        assert_eq!((report.error, report.data), (None, present(NEW)), "{after}");
        let [data, log] = archived(&world);
        assert_eq!(
            (data.len(), &log),
            (1, &vec![format!("{}.wal", data[0])]),
            "{after}"
        );
        let rest = [names(world.dir.path()), names(log_disk(&world))].concat();
        assert!(
            !rest.iter().any(|name| name.contains("staged")),
            "{after}: {rest:?}"
        );
    }
}

fn log_disk(world: &World) -> &Path {
    log(world).parent().unwrap()
}

/// The old data without its log is not taken for the restored data without its log.
#[test]
fn other_data_gets_no_restored_log() {
    let world = with_data(OLD);
    world.stage(NEW);
    let staged = stage::dirs(&world.owner, Epoch(2));
    fs::remove_dir_all(log(&world)).unwrap();
    fs::rename(staged.data(), world.dir.path().join("elsewhere")).unwrap();
    let error = world.replace(true).error.unwrap();
    assert!(error.contains("nothing was moved"), "{error}");
    assert!(staged.log().exists() && world.owner.dirs.database().exists() && !log(&world).exists());
}

#[test]
fn nothing_is_moved_before_the_log_of_the_restore_is_complete() {
    let world = with_data(OLD);
    world.stage(NEW);
    fs::remove_dir_all(stage::dirs(&world.owner, Epoch(2)).log()).unwrap();
    let report = world.replace(true);
    assert!(report.error.unwrap().contains("nothing was moved"));
    assert_eq!((report.data, report.staged), (present(OLD), None));
}

#[test]
fn the_archive_is_bounded_for_both() {
    let world = world();
    let archive = |dir: &Path| dir.with_file_name("etcd-agent-archive");
    let (data, log) = (archive(world.owner.dirs.data()), archive(log(&world)));
    for day in 1..=4 {
        let name = format!("2026010{day}T000000Z-restore-1-2");
        let dirs = DataDirs::new(data.join(&name), Some(log.join(format!("{name}.wal"))));
        fill_at(&dirs, OLD);
    }
    // Data without a log, a log without data, and what is not the agent's.
    fs::create_dir_all(data.join("20260105T000000Z-restore-unknown-unknown")).unwrap();
    let alone = log.join("20260106T000000Z-unusable-3-4.wal");
    fs::create_dir_all(&alone).unwrap();
    fs::write(alone.join(FILE), wal::encode(NEW.0, NEW.1)).unwrap();
    fs::create_dir(log.join("by-hand.wal")).unwrap();
    fill_at(&world.owner.dirs, OLD);
    assert_eq!(world.replace(false).error, None);
    // The newest of each cluster is left: all others are older than thirty days.
    let [data, log] = archived(&world);
    assert_eq!(data.len(), 2, "{data:?}");
    assert_eq!(
        log,
        [
            "20260106T000000Z-unusable-3-4.wal".to_owned(),
            format!("{}.wal", data[1]),
            "by-hand.wal".to_owned()
        ]
    );
}
