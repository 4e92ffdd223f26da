#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::fs::{CWD, mkfifoat};

use super::*;
use crate::config;
use crate::paths::Paths;

const DIR: &str = "etc/etcd-agent/config.d";

fn fragment() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(DIR);
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("10.toml");
    fs::write(&file, "[cluster]\nname = \"prod\"\n").unwrap();
    (root, file)
}

/// The error about the fragment, without the path of the temporary root.
fn said(root: &Path) -> String {
    let error = config::load(&Paths::below(root)).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error.replace(root.to_str().unwrap(), "")
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn f01_a_fragment_of_another_user_is_refused() {
    let (root, file) = fragment();
    assert!(config::load(&Paths::below(root.path())).unwrap().is_some());
    let uid = rustix::process::geteuid().as_raw();
    let open_as = |owner: u32| {
        let dir = open(root.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        open_of(dir, root.path(), &file, owner)
    };
    assert!(open_as(uid).is_ok());
    let Err(Refusal::Untrusted(why)) = open_as(uid + 1) else {
        unreachable!("a file of another user is accepted");
    };
    let expected = format!("belongs to uid {uid}, expected uid {}", uid + 1);
    assert!(why.contains(&expected) && why.contains("chown"), "{why}");
}

#[test]
fn f01_what_others_can_write_is_refused() {
    for (what, path) in [
        ("the fragment", "etc/etcd-agent/config.d/10.toml"),
        ("its directory", DIR),
        ("a directory above", "etc"),
    ] {
        for bits in [0o020, 0o002] {
            let (root, _) = fragment();
            let path = root.path().join(path);
            let old = fs::metadata(&path).unwrap().permissions().mode();
            mode(&path, old | bits);
            let said = said(root.path());
            assert!(said.contains("chmod go-w"), "{what}: {said}");
        }
    }
}

#[test]
fn f01_a_link_and_a_fifo_are_refused_at_once() {
    let (root, file) = fragment();
    let elsewhere = root.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert!(said(root.path()).contains("is a symbolic link, expected a regular file"));

    fs::remove_file(&file).unwrap();
    mkfifoat(CWD, &file, Mode::from_raw_mode(0o600)).unwrap();
    assert!(said(root.path()).contains("is a FIFO, expected a regular file"));

    let (root, file) = fragment();
    let dir = file.parent().unwrap();
    fs::rename(dir, root.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(root.path().join("moved"), dir).unwrap();
    assert!(said(root.path()).contains("is a symbolic link, expected a directory"));
}

/// The daemon's user can write below `/run/etcd-agent`, so no source of the configuration may be there.
#[test]
fn f01_the_daemons_runtime_directory_is_no_source() {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::below(root.path());
    let sources = paths.config_sources();
    for dir in [
        paths.run(),
        paths.state(),
        paths.restore(),
        paths.verify(),
        paths.backups(),
    ] {
        assert!(
            sources.iter().all(|source| !source.starts_with(&dir)),
            "{sources:?}"
        );
    }
    let before = paths.run().join("config.d");
    assert_eq!(config::no_longer_read(&paths), None);
    fs::create_dir_all(&before).unwrap();
    assert_eq!(config::no_longer_read(&paths), None, "empty");
    fs::write(before.join("10.toml"), "[cluster]\nname = \"x\"\n").unwrap();
    assert!(config::load(&paths).unwrap().is_none());
    let said = config::no_longer_read(&paths).unwrap();
    assert!(said.contains("/run/etcd-agent-config.d"), "{said}");
    assert_eq!(said.lines().count(), 1);
}
