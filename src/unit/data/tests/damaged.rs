//! Unreadable data counts as damaged only if etcd says so and reading the data finds the same.

use super::*;
use crate::unit::mounts::{HeldBy, HeldDir};

/// A member whose log is damaged within an entry, as etcd says in these starts.
fn damaged_log(starts: fn() -> Vec<starts::Start>) -> World {
    let mut world = World::with_data(OLD);
    world.owner.starts = starts;
    let log = wal::encode_with(OLD.0, OLD.1, &[(2, b"an entry with a wrong checksum")]);
    let path = world
        .owner
        .dirs
        .data()
        .join("member/wal/0000000000000000-0000000000000000.wal");
    fs::write(path, log).unwrap();
    world
}

fn log_damaged() -> Vec<starts::Start> {
    starts::said(&[("discovery failed", "walpb: crc mismatch")])
}

#[test]
fn c11_damaged_only_when_etcd_says_so_and_reading_it_finds_the_same() {
    let failed = DataRequest::Inspect(Inspection {
        failed: true,
        ..Inspection::default()
    });
    let damaged = damaged_log(log_damaged);
    let report = damaged.ask(failed.clone());
    assert!(
        matches!(&report.data, DataState::Unusable { why, .. } if why.contains("walpb: crc mismatch") && why.contains("wrong checksum")),
        "{report:?}"
    );
    assert_eq!(report.data.whose(), Some(OLD), "its log says whose it is");
    assert_eq!(
        damaged
            .replace_of(NEW, false)
            .error
            .map(|error| error.contains("nothing was moved")),
        Some(true)
    );
    assert_eq!(damaged.replace_of(OLD, false).error, None);
    assert_eq!(
        (damaged.state(), damaged.archived().len()),
        (DataState::Missing, 1)
    );

    let mut healthy = World::with_data(OLD);
    healthy.owner.starts = log_damaged;
    let report = healthy.ask(failed.clone());
    assert_eq!(report.data, present(OLD), "etcd's words alone");
    assert!(report.last_words.unwrap().claim_damage());

    let table: [(&str, Starts); 4] = [
        ("no words", Vec::new),
        ("unknown words", || {
            starts::said(&[("discovery failed", "who knows"); 3])
        }),
        ("about something else", || {
            starts::said(&[("discovery failed", "write x: no space left on device"); 3])
        }),
        ("about the database, which is not read as damaged", || {
            starts::said(&[("fatal error: fault", ""); 2])
        }),
    ];
    for (case, words) in table {
        assert_eq!(
            damaged_log(words).ask(failed.clone()).data,
            present(OLD),
            "{case}"
        );
    }
    let report = damaged_log(log_damaged).ask(DataRequest::Inspect(Inspection::default()));
    assert_eq!(
        (report.data, report.last_words),
        (present(OLD), None),
        "it has not failed"
    );
}

#[test]
fn c11_nothing_is_judged_while_etcd_has_its_database_open() {
    let world = damaged_log(log_damaged);
    let held = inspect::lock(&world.owner.dirs).unwrap();
    let failed = DataRequest::Inspect(Inspection {
        failed: true,
        ..Inspection::default()
    });
    assert_eq!(world.ask(failed.clone()).data, present(OLD));
    drop(held);
    assert!(matches!(world.ask(failed).data, DataState::Unusable { .. }));
}

#[test]
fn c11_of_another_owner_is_unknown_and_not_lost() {
    let mut world = World::with_data(OLD);
    world.owner.uid += 1;
    let why = inspect::inspect(&world.owner).unwrap_err();
    assert!(why.contains("belongs to uid"), "{why}");
}

#[test]
fn what_cannot_be_looked_at_is_unknown_and_never_missing() {
    let mut world = World::new();
    world.owner.dirs = DataDirs::new(world.owner.dirs.data().join("deeper/still"), None);
    assert!(inspect::inspect(&world.owner).is_err(), "the parent is not there");

    let world = World::new();
    std::os::unix::fs::symlink("/nowhere/at/all", world.owner.dirs.data()).unwrap();
    assert!(inspect::inspect(&world.owner).is_err(), "a link to nothing");

    let mut world = World::new();
    let point = world.owner.dirs.data().parent().unwrap().display().to_string();
    world.owner.mounts.0 = format!("/dev/sdb1 {point} ext4 defaults 0 2\n");
    assert!(
        inspect::inspect(&world.owner)
            .unwrap_err()
            .contains("not mounted")
    );

    // Root can read everything, so this part only works if the tests do not run as root.
    let world = World::with_data(OLD);
    if world.owner.uid != 0 {
        let member = world.owner.dirs.data().join("member");
        fs::set_permissions(&member, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(inspect::inspect(&world.owner).is_err(), "no permission");
        fs::set_permissions(&member, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// A late mount, by a unit or by cloud-init, which `/etc/fstab` does not list.
#[test]
fn c10d_an_empty_directory_on_another_device_is_unknown_and_not_lost() {
    let root = "22 1 8:1 / / rw - ext4 /dev/a rw\n".to_owned();
    let mut world = World::with_data(OLD);
    let parent = owner::parent(world.owner.dirs.data())
        .unwrap()
        .canonicalize()
        .unwrap();
    let disk = format!("{root}23 22 8:2 / {} rw - xfs /dev/b rw\n", parent.display());
    let look = |world: &World| {
        let file = RequestFile {
            id: "x".to_owned(),
            boot_id: String::new(),
            request: DataRequest::Inspect(Inspection::default()),
        };
        world.owner.answer(&file, false)
    };
    world.owner.mounts.1.clone_from(&disk);
    world.owner.started = Some(OLD);
    let log = "member/wal/0000000000000000-0000000000000000.wal";
    let wal = wal::encode_with(OLD.0, OLD.1, &[(2, b"entry")]);
    fs::write(world.owner.dirs.data().join(log), wal).unwrap();
    let held_by = look(&world).held_by.expect("remembered while the data are there");
    assert_eq!(held_by.data.mount.source, "/dev/b");

    world.owner.held_by = Ok(Some(held_by));
    fs::remove_dir_all(world.owner.dirs.data()).unwrap();
    let lost = look(&world);
    assert_eq!(
        lost.report.map(|r| r.data),
        Some(DataState::Missing),
        "the same device"
    );
    assert_eq!(lost.held_by, None, "lost data is not remembered again");

    world.owner.mounts.1 = root;
    let late = look(&world);
    assert_eq!(late.report, None, "another device");
    let why = late.unknown.unwrap();
    assert!(
        why.contains("/dev/b (xfs)") && why.contains("/dev/a (ext4)"),
        "{why}"
    );

    world.owner.held_by = Err("data-mount.json: garbage".to_owned());
    assert_eq!(look(&world).report, None, "what is remembered cannot be read");
    world.owner.held_by = Ok(None);
    assert!(look(&world).report.is_some(), "nothing is remembered");
    world.owner.started = None;
    world.owner.mounts.1 = disk;
    assert!(
        look(&world).held_by.is_some(),
        "remembered before the first start"
    );
}

#[test]
fn data_in_another_directory_than_configured_are_unknown_and_not_lost() {
    let mut world = World::with_data(OLD);
    let log = world.owner.dirs.log();
    let wal = wal::encode_with(OLD.0, OLD.1, &[(2, b"entry")]);
    fs::write(log.join("0000000000000000-0000000000000000.wal"), wal).unwrap();
    world.owner.mounts.1 = "22 1 8:1 / / rw - ext4 /dev/a rw\n".to_owned();
    world.owner.started = Some(OLD);
    world.owner.assigned = Some(world.owner.dirs.clone());
    let former = world.owner.dirs.clone();
    let moved = DataDirs::new(former.data().with_file_name("new"), None);
    let held = HeldBy {
        data: HeldDir {
            dir: former.data().to_owned(),
            mount: world.owner.mount(former.data()).unwrap(),
        },
        log: None,
    };
    world.owner.held_by = Ok(Some(held.clone()));

    world.owner.dirs = moved.clone();
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("put etcd.data_dir back"), "{unknown}");
    assert!(replace::replace(&world.owner, Epoch(2), "removed", false, OLD).is_err());

    // Root has accepted it, and the agent follows.
    world.owner.assigned = Some(moved.clone());
    let unknown = inspect::inspect(&world.owner).unwrap_err();
    assert!(unknown.contains("move them there"), "{unknown}");
    fs::rename(former.data(), moved.data()).unwrap();
    assert!(
        matches!(world.state(), DataState::Present { .. }),
        "moved by hand"
    );

    // A member that has left may have its data anywhere when it comes in again.
    fs::remove_dir_all(moved.data()).unwrap();
    assert_eq!(world.state(), DataState::Missing);
    let mut away = held;
    away.data.mount.source = "/dev/b".to_owned();
    world.owner.held_by = Ok(Some(away));
    assert!(inspect::inspect(&world.owner).is_err(), "its disk is not mounted");
}
