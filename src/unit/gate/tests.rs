#![allow(clippy::unwrap_used)]

use super::*;
use crate::model::{ClusterId, Epoch, MemberId};

const FIRST: &str = "0000000000000000-0000000000000000.wal";

/// A gate of a member whose log is elsewhere, and the directories.
fn gate(root: &Path) -> (GateState, DataDirs) {
    let mut gate = GateState::of_nobody(Epoch(1));
    gate.data_dir = root.join("data");
    gate.wal_dir = Some(root.join("log"));
    let dirs = DataDirs::of_gate(&gate);
    (gate, dirs)
}

/// With the settings of the gate in force.
fn looked_at(gate: &GateState) -> Result<Option<Log>, String> {
    identify(gate, gate.wal_dir.as_deref())
}

fn write_log(dirs: &DataDirs, name: &str) -> PathBuf {
    fs::create_dir_all(dirs.log()).unwrap();
    let path = dirs.log().join(name);
    fs::write(&path, wal::encode(ClusterId(1), MemberId(2))).unwrap();
    path
}

/// etcd 3.5 and 3.6 serve an empty cluster from a log without its data, and 3.5 serves an old member from a
/// log of other data.
#[test]
fn a_log_that_is_elsewhere_and_its_data_pass_together_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let (gate, dirs) = gate(root.path());
    assert_eq!(looked_at(&gate), Ok(None), "none of both: the first start");
    let first = write_log(&dirs, FIRST);
    let why = looked_at(&gate).unwrap_err();
    assert!(why.contains("there is no database in"), "{why}");
    fs::create_dir_all(dirs.snap()).unwrap();
    assert!(looked_at(&gate).is_err(), "no database yet");
    fs::write(dirs.database(), "db").unwrap();
    let log = looked_at(&gate).unwrap().unwrap();
    assert_eq!((log.cluster_id, log.member_id), (ClusterId(1), MemberId(2)));

    fs::remove_file(first).unwrap();
    let why = looked_at(&gate).unwrap_err();
    assert!(why.contains("there is no log in"), "{why}");
    fs::remove_dir_all(dirs.log()).unwrap();
    assert!(looked_at(&gate).is_err(), "no directory of the log");

    write_log(&dirs, "0000000000000002-0000000000000009.wal");
    let why = looked_at(&gate).unwrap_err();
    assert!(why.contains("does not belong to the data"), "{why}");
    fs::write(dirs.snap().join("0000000000000001-0000000000000009.snap"), "").unwrap();
    assert!(looked_at(&gate).unwrap().is_some());
}

#[test]
fn a_log_in_the_data_directory_is_found_there() {
    let root = tempfile::tempdir().unwrap();
    let (mut gate, _) = gate(root.path());
    gate.wal_dir = None;
    assert_eq!(looked_at(&gate), Ok(None));
    write_log(&DataDirs::of_gate(&gate), FIRST);
    assert!(looked_at(&gate).unwrap().is_some());
}

/// The agent has written the gate's state, and root's oneshot has refused the settings.
#[test]
fn an_etcd_with_other_settings_of_its_log_does_not_pass() {
    let root = tempfile::tempdir().unwrap();
    let (mut gate, dirs) = gate(root.path());
    write_log(&dirs, FIRST);
    fs::create_dir_all(dirs.snap()).unwrap();
    fs::write(dirs.database(), "db").unwrap();
    assert!(looked_at(&gate).unwrap().is_some());
    for other in [None, Some(root.path().join("other"))] {
        let why = identify(&gate, other.as_deref()).unwrap_err();
        assert!(why.contains("has not written it yet"), "{why}");
    }
    gate.wal_dir = None;
    assert!(
        identify(&gate, Some(&dirs.log())).is_err(),
        "back into the data directory"
    );
    let env = root.path().join("etcd.env");
    assert_eq!(read_variable(&env, "ETCD_WAL_DIR"), None);
    fs::write(&env, "ETCD_NAME=\"n1\"\nETCD_WAL_DIR=\"/disk/etcd\"\n").unwrap();
    assert_eq!(read_variable(&env, "ETCD_WAL_DIR").as_deref(), Some("/disk/etcd"));
}
