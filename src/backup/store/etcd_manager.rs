//! What etcd-manager reads and writes: the commit marker of its backups, the marker that its cluster exists,
//! and its queue of commands. Source: `pkg/backup/vfs.go`, `pkg/commands/vfs.go` and
//! `pkg/apis/etcd/etcdapi.proto` of kubernetes-sigs/etcd-manager. Its readers refuse fields that they do not
//! know.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{BackupId, ClusterName, StoreCommand, UnixMs};
use crate::ports::{Created, ObjectStore, PortError, PortResult};

use super::layout::Layout;

/// The file of a command, below its own directory in `control/`.
const COMMAND: &str = "_command.json";
/// The most commands that are read. Others may write to the store, so the queue is unbounded.
const MOST_READ: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BackupInfo<'a> {
    etcd_version: &'a str,
    /// Unix seconds; a 64-bit number is a string in protobuf's JSON.
    timestamp: String,
    cluster_spec: ClusterSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterSpec<'a> {
    member_count: usize,
    etcd_version: &'a str,
}

/// `_etcd_backup.meta`, with the fields that its reader knows and no other.
pub(in crate::backup) fn meta(etcd_version: &str, at: UnixMs, members: usize) -> PortResult<Vec<u8>> {
    let info = BackupInfo {
        etcd_version,
        timestamp: (at.0 / 1000).to_string(),
        cluster_spec: ClusterSpec {
            member_count: members,
            etcd_version,
        },
    };
    serde_json::to_vec_pretty(&info).map_err(|error| PortError::Permanent(error.to_string()))
}

/// Writes `etcd-cluster-created` unless it is there: without it etcd-manager takes the cluster for a new one,
/// and moves the data that it finds out of the way.
pub(in crate::backup) async fn mark_created(
    store: &dyn ObjectStore,
    layout: &Layout,
    now: UnixMs,
) -> PortResult<Created> {
    let text = format!("{{\"timestamp\":{}}}", u128::from(now.0) * 1_000_000);
    store.create(&layout.created(), text.into()).await
}

#[derive(Deserialize)]
struct Command {
    #[serde(default)]
    timestamp: Value,
    #[serde(default, alias = "restore_backup", rename = "restoreBackup")]
    restore_backup: Option<RestoreBackup>,
}

#[derive(Deserialize)]
struct RestoreBackup {
    #[serde(default)]
    backup: String,
}

/// The names of the commands among some keys, oldest first by name.
pub(super) fn command_names<'a>(layout: &Layout, keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    let control = layout.control();
    let mut names: Vec<String> = keys
        .filter_map(|key| {
            key.strip_prefix(&control)?
                .strip_suffix(COMMAND)?
                .strip_suffix('/')
        })
        .filter(|name| !name.is_empty() && !name.contains('/'))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// All commands in the queue, oldest first.
///
/// # Errors
/// What the store answered. A command that cannot be read or understood is returned with its problem.
pub async fn commands(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Vec<StoreCommand>> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(&layout.control()).await?;
    let mut commands = Vec::new();
    let names = command_names(&layout, objects.iter().map(|object| object.key.as_str()));
    for (place, name) in names.into_iter().enumerate() {
        let key = key(&layout, &name);
        if place >= MOST_READ {
            commands.push(unread(
                name,
                format!("not read: there are more than {MOST_READ} commands"),
            ));
            continue;
        }
        match store.get_small(&key).await {
            Ok(Some(text)) => commands.push(parse(name, &text)),
            // Carried out or deleted since it was listed.
            Ok(None) => {}
            // Too large or not readable. This concerns one command and must not hide the others.
            Err(PortError::Permanent(why)) => commands.push(unread(name, why)),
            Err(error) => return Err(error),
        }
    }
    commands.sort_by_key(|command| command.at);
    Ok(commands)
}

/// Takes a command out of the queue; false when there is none of that name.
///
/// # Errors
/// What the store answered.
pub async fn delete_command(store: &dyn ObjectStore, cluster: &ClusterName, name: &str) -> PortResult<bool> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(&layout.control()).await?;
    let names = command_names(&layout, objects.iter().map(|object| object.key.as_str()));
    // Delete only a listed command; never build a key from an unchecked name.
    if !names.iter().any(|known| known == name) {
        return Ok(false);
    }
    store.delete(&key(&layout, name)).await?;
    Ok(true)
}

fn key(layout: &Layout, name: &str) -> String {
    format!("{}{name}/{COMMAND}", layout.control())
}

fn unread(name: String, problem: String) -> StoreCommand {
    StoreCommand {
        name,
        at: None,
        restore: None,
        problem: Some(problem),
    }
}

pub(in crate::backup) fn parse(name: String, text: &[u8]) -> StoreCommand {
    let read: Command = match serde_json::from_slice(text) {
        Ok(read) => read,
        Err(error) => {
            return unread(
                name,
                format!("{COMMAND} is not a command of etcd-manager: {error}"),
            );
        }
    };
    let nanos: Option<u64> = match &read.timestamp {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64(),
        _ => None,
    };
    let asked = read
        .restore_backup
        .ok_or_else(|| "it has no operation that is known here, expected restoreBackup".to_owned())
        .and_then(|restore| BackupId::new(restore.backup).map_err(|error| error.to_string()));
    let (restore, problem) = match asked {
        Ok(backup) => (Some(backup), None),
        Err(why) => (None, Some(why)),
    };
    StoreCommand {
        name,
        at: nanos.map(|nanos| UnixMs(nanos / 1_000_000)),
        restore,
        problem,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::backup::testing::{cluster, store};

    #[test]
    fn the_marker_has_the_fields_that_a_strict_reader_knows() {
        let text = String::from_utf8(meta("3.5.7", UnixMs(1_700_000_000_123), 3).unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        {
          "etcdVersion": "3.5.7",
          "timestamp": "1700000000",
          "clusterSpec": {
            "memberCount": 3,
            "etcdVersion": "3.5.7"
          }
        }
        "#);
    }

    #[tokio::test]
    async fn commands_are_listed_by_time_and_deleted_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let later = r#"{"timestamp":"1700000002000000000","restoreBackup":{"clusterSpec":{"memberCount":3},"backup":"b2"}}"#;
        let first = r#"{"timestamp":1700000001000000000,"restore_backup":{"backup":"b1"}}"#;
        for (key, text) in [
            ("prod/control/2023-11-14T22:13:22Z-000000/_command.json", later),
            ("prod/control/2023-11-14T22:13:23Z-000000/_command.json", first),
            ("prod/control/2023-11-14T22:13:24Z-000000/_command.json", "{"),
            ("prod/control/a/b/_command.json", first),
            ("prod/control/_command.json", first),
            ("prod/control/etcd-cluster-spec", "{}"),
        ] {
            store.put(key, Bytes::from_static(text.as_bytes())).await.unwrap();
        }
        let found = commands(&store, &cluster()).await.unwrap();
        let restores: Vec<_> = found
            .iter()
            .map(|c| c.restore.as_ref().map(BackupId::as_str))
            .collect();
        assert_eq!(restores, [None, Some("b1"), Some("b2")]);
        assert!(found[0].problem.is_some());
        assert_eq!(found[1].at, Some(UnixMs(1_700_000_001_000)));
        for (name, there) in [
            ("../control/a/b", false),
            ("a/b", false),
            (found[1].name.as_str(), true),
            ("", false),
        ] {
            assert_eq!(
                delete_command(&store, &cluster(), name).await.unwrap(),
                there,
                "{name}"
            );
        }
        assert_eq!(commands(&store, &cluster()).await.unwrap().len(), 2);
        assert_eq!(store.list("").await.unwrap().len(), 5);
    }

    #[tokio::test]
    async fn the_marker_that_the_cluster_exists_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let layout = Layout::of(&store, &cluster());
        mark_created(&store, &layout, UnixMs(5)).await.unwrap();
        mark_created(&store, &layout, UnixMs(6)).await.unwrap();
        let text = store
            .get_small("prod/control/etcd-cluster-created")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(text, "{\"timestamp\":5000000}");
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_read_says_why_and_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let good = br#"{"timestamp":"1700000001000000000","restoreBackup":{"backup":"2023-11-14T22:13:20Z-000001"}}"#;
        let large = vec![b' '; (1 << 20) + 1];
        let rows: [(&str, &[u8], &str); 5] = [
            ("a", b"[1", "is not a command of etcd-manager"),
            ("b", b"{}", "expected restoreBackup"),
            (
                "c",
                br#"{"restoreBackup":{"backup":"../../x"}}"#,
                "expected YYYY-MM-DDTHH:MM:SSZ-NNNNNN",
            ),
            (
                "d",
                br#"{"restoreBackup":{}}"#,
                "expected YYYY-MM-DDTHH:MM:SSZ-NNNNNN",
            ),
            ("e", &large, "larger than 1048576 bytes"),
        ];
        let put = async |name: &str, text: &[u8]| {
            let key = format!("prod/control/{name}/_command.json");
            store.put(&key, Bytes::copy_from_slice(text)).await.unwrap();
        };
        put("z", good).await;
        for (name, text, _) in rows {
            put(name, text).await;
        }
        let found = commands(&store, &cluster()).await.unwrap();
        assert_eq!(found.len(), rows.len() + 1);
        for (name, _, expected) in rows {
            let problem = found
                .iter()
                .find(|c| c.name == name)
                .and_then(|c| c.problem.clone());
            assert!(
                problem.as_ref().is_some_and(|p| p.contains(expected)),
                "{name}: {problem:?}"
            );
        }
        assert!(found.iter().any(|c| c.name == "z" && c.restore.is_some()));
    }

    proptest! {
        #[test]
        fn garbage_is_a_command_with_a_problem(text in any::<Vec<u8>>()) {
            prop_assert!(parse("x".to_owned(), &text).problem.is_some());
        }
    }
}
