//! `restore --to`, with a tool that stands for `etcdutl`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::settings_tree;
use crate::cli::out::Output;
use crate::cli::restore_to::{Target, run_until};

/// A backup of etcd-manager, the smallest that there can be.
fn backup(store: &Path) {
    let dir = store.join("prod/2023-11-14T22:13:20Z-000001");
    fs::create_dir_all(&dir).unwrap();
    let mut snapshot = vec![0; 64 * 1024];
    snapshot.extend(Sha256::digest(&snapshot));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&snapshot).unwrap();
    fs::write(dir.join("etcd.backup.gz"), gzip.finish().unwrap()).unwrap();
    let meta = r#"{"etcdVersion":"3.5.7","timestamp":"1700000000"}"#;
    fs::write(dir.join("_etcd_backup.meta"), meta).unwrap();
}

async fn there(path: PathBuf) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn b16_what_is_interrupted_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for dir in ["store", "bin", "target"] {
        fs::create_dir(at(dir)).unwrap();
    }
    backup(&at("store"));
    // It writes to `--data-dir`, and runs until the file `end` exists.
    let tool = format!(
        "#!/bin/sh\nfor arg; do case $arg in --data-dir=*) /bin/mkdir -p \"${{arg#*=}}/member\";; esac; done\n\
         : > {0}/started\nwhile ! [ -e {0}/end ]; do /bin/sleep 0.01; done\nexit 1\n",
        place.path().display()
    );
    fs::write(at("bin/etcdutl"), tool).unwrap();
    fs::set_permissions(at("bin/etcdutl"), fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "[node]\nname = \"n1\"\n[cluster]\nname = \"prod\"\nnodes = {{ n1 = \"n1\" }}\n[etcd]\nbinary = \"{0}/bin/etcd\"\n\
         [store]\nurl = \"file://{0}/store\"\n",
        place.path().display()
    );
    let (_root, paths) = settings_tree(&text);
    let dir = at("target/data");
    let target = Target {
        backup: "2023-11-14T22:13:20Z-000001",
        wanted: None,
        dir: &dir,
        more: &[],
        output: Output::default(),
    };
    let stop = async {
        there(at("started")).await;
        assert_eq!(fs::read_dir(at("target")).unwrap().count(), 1);
        fs::write(at("end"), "").unwrap();
    };
    let stopped = run_until(&paths, &target, stop).await.unwrap_err();
    assert!(stopped.text.contains("interrupted"), "{stopped}");
    assert_eq!(fs::read_dir(at("target")).unwrap().count(), 0);
    // The same for an interrupt at once, while the backup is searched for or fetched.
    let stopped = run_until(&paths, &target, async {}).await.unwrap_err();
    assert!(stopped.text.contains("interrupted"), "{stopped}");
    assert_eq!(fs::read_dir(at("target")).unwrap().count(), 0);
}
