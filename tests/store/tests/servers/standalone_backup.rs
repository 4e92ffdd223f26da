//! `etcd-agent backup run` next to an etcd that no agent manages, into real S3 servers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use etcd_agent::adapters::dir::DirStore;
use etcd_agent::agent::{StandaloneBackup, run_standalone_backup};
use etcd_agent::backup;
use etcd_agent::config;
use etcd_agent::model::{ClusterName, StoredBackup};
use etcd_agent::ports::ObjectStore;
use etcd_agent_lab::ETCD_VERSIONS;
use etcd_agent_store_tests::{AnyS3, Kind, RealEtcd};

fn prod() -> ClusterName {
    ClusterName::new("prod").unwrap()
}

/// A backup with an operator's configuration, except the store: its settings come from the test's S3 server.
fn standalone(dir: &Path, s3: &AnyS3, more: &str, endpoints: &[&str], once: bool) -> StandaloneBackup {
    let file = dir.join("backup.toml");
    let text =
        format!("[cluster]\nname = \"prod\"\n[store]\nurl = \"s3://backups/y\"\nregion = \"r\"\n{more}");
    fs::write(&file, text).unwrap();
    let mut settings = config::load_file(&file).unwrap().settings;
    settings.store = Some(s3.settings());
    StandaloneBackup {
        settings,
        endpoints: endpoints.iter().map(|url| (*url).to_owned()).collect(),
        tls: None,
        cluster_id: None,
        once,
    }
}

async fn backups(store: &dyn ObjectStore) -> Vec<StoredBackup> {
    backup::list(store, &prod()).await.unwrap().backups
}

/// An endpoint that does not answer. The agent skips it.
const SILENT: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_co_process_takes_one_backup_in_each_interval() {
    for (kind, version) in [
        (Kind::Versitygw, ETCD_VERSIONS[0]),
        (Kind::Minio, ETCD_VERSIONS[2]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let s3 = AnyS3::start(kind).await;
        let store = s3.store();
        let etcd = RealEtcd::start(version);
        etcd.ctl(&["put", "a", "b"]);
        let members = [SILENT, etcd.url.as_str()];
        let every = "[backup]\ninterval = \"2s\"\n";

        run_standalone_backup(standalone(dir.path(), &s3, every, &members, true))
            .await
            .unwrap();
        let first = backups(store.as_ref()).await;
        assert_eq!(first.len(), 1);
        assert!(first[0].summary.revision.0 >= 2);

        let running = tokio::spawn(run_standalone_backup(standalone(
            dir.path(),
            &s3,
            every,
            &members,
            false,
        )));
        let mut found = first;
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            found = backups(store.as_ref()).await;
            if found.len() >= 3 {
                break;
            }
        }
        running.abort();
        assert!(found.len() >= 3, "{found:?}");
        // The existing backup counts: the next one follows when the existing one is an interval old, not
        // immediately.
        for pair in found.windows(2) {
            let apart = pair[1].summary.at.since(pair[0].summary.at);
            assert!(apart >= Duration::from_secs(2), "{found:?}");
        }
        // The backup can be fetched and restored like any other backup.
        let work = tempfile::tempdir().unwrap();
        let fetched = backup::fetch(store.as_ref(), &prod(), &found[0].summary.id, work.path())
            .await
            .unwrap();
        let data = work.path().join("data");
        let (file, data_dir) = (fetched.path.to_str().unwrap(), data.to_str().unwrap());
        etcd.utl(&["snapshot", "restore", file, "--data-dir", data_dir]);
        assert_eq!(
            etcd.serve(&data).ctl(&["get", "a", "--print-value-only"]).trim(),
            "b"
        );
    }
}

#[tokio::test]
async fn one_for_a_timer_also_removes_old_ones_and_copies_and_etcd_manager_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let second = dir.path().join("second");
    fs::create_dir(&second).unwrap();
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let store = s3.store();
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    etcd.ctl(&["put", "a", "b"]);
    let more = format!(
        "[store.copy]\nurl = \"file://{}\"\n[backup]\nformat = \"etcd-manager\"\n[backup.retention]\nrecent = \"1s\"\nhourly = 0\n\
         daily = 0\nweekly = 0\nyearly = 0\ncount = 2\n",
        second.display()
    );
    for _ in 0..3 {
        run_standalone_backup(standalone(dir.path(), &s3, &more, &[&etcd.url], true))
            .await
            .unwrap();
        // The order of names has a resolution of one second.
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    let kept = backups(store.as_ref()).await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    let copied = backups(&DirStore::new(&second)).await;
    assert_eq!(copied.len(), 3, "{copied:?}");
    let marker = format!("{}/_etcd_backup.meta", kept[1].summary.id);
    let marker = store.get_small(&marker).await.unwrap().unwrap();
    let marker: serde_json::Value = serde_json::from_slice(&marker).unwrap();
    assert_eq!(marker["clusterSpec"]["memberCount"], 1);
    assert_eq!(marker["etcdVersion"], ETCD_VERSIONS[1]);
}

#[tokio::test]
async fn what_cannot_be_backed_up_is_named_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let (one, other) = (
        RealEtcd::start(ETCD_VERSIONS[0]),
        RealEtcd::start(ETCD_VERSIONS[0]),
    );
    let rows: [(&str, &[&str], &str); 5] = [
        (
            "a password",
            &["https://root:hush@127.0.0.1:1"],
            "must not contain a user",
        ),
        ("nobody answers", &[SILENT], "127.0.0.1:1"),
        ("two clusters", &[&one.url, &other.url], "two clusters"),
        ("no URL", &["n1:2379"], "begins with neither http nor https"),
        ("no certificates", &["https://127.0.0.1:1"], "--cacert"),
    ];
    for (what, endpoints, expected) in rows {
        let asked = standalone(dir.path(), &s3, "", endpoints, true);
        let error = run_standalone_backup(asked).await.unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains("hush"),
            "{what}: {error}"
        );
    }
    assert_eq!(s3.store().list("").await.unwrap(), []);

    // Of two clusters under one name the second one is refused, until an operator says that it is the first one.
    let of = |etcd: &RealEtcd| standalone(dir.path(), &s3, "", &[&etcd.url], true);
    run_standalone_backup(of(&one)).await.unwrap();
    let error = run_standalone_backup(of(&other)).await.unwrap_err().to_string();
    assert!(
        error.contains("set another cluster.name") && error.contains("--cluster-id "),
        "{error}"
    );
    let (_, own) = error.split_once("--cluster-id ").unwrap();
    let accepted = StandaloneBackup {
        cluster_id: Some(own.parse().unwrap()),
        ..of(&other)
    };
    assert_eq!(backups(s3.store().as_ref()).await.len(), 1);
    run_standalone_backup(accepted).await.unwrap();
    assert_eq!(backups(s3.store().as_ref()).await.len(), 2);
}
