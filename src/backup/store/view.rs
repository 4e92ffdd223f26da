//! The planner's view of the store, from one listing and at most four small reads. The newest backups for the
//! status page come from the same listing.

use crate::model::{ClusterName, Fact, RecentBackup, SeenVerification, StoreView, UnixMs};
use crate::ports::{ObjectMeta, ObjectStore, PortResult};

use super::layout::{Layout, is_marker};
use super::recent::recent;
use super::{catalogue, cluster_spec, epochs, etcd_manager};

/// Looks at the store. Backups dated after `now`, which is called after the listing, are never the newest,
/// but they are traces of a cluster. Whether the store honours `If-None-Match` is tested only if no epoch is
/// recorded yet: a view of a running cluster's store writes nothing. `known` are the newest backups of the
/// last look.
///
/// # Errors
/// What the store answered. Everything is unknown then, and nothing counts as absent.
pub async fn look_at_store(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    now: impl Fn() -> UnixMs,
    known: &[RecentBackup],
) -> PortResult<(StoreView, Vec<RecentBackup>)> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await?;
    let now = now();
    let genesis = epochs::newest_of(store, cluster, &layout, &objects).await?;
    let newest = catalogue::newest_of(store, &layout, &objects, now).await?;
    let keys = objects.iter().map(|object| object.key.as_str());
    let commands = etcd_manager::command_names(&layout, keys);
    let trace = trace(&layout, &objects);
    let verify = catalogue::verifications_of(store, &layout, &objects, now).await?;
    let spec = layout.spec();
    let size = if objects.iter().any(|object| object.key == spec) {
        cluster_spec::wanted_size(store, cluster).await?
    } else {
        Fact::Absent
    };
    // `create` itself refuses if the store ignores the header, so `true` risks nothing.
    let conditional_writes = genesis.is_some() || store.conditional_writes().await?;
    let mut recent = recent(&layout, &objects, known);
    if let Some((id, result)) = &verify.last
        && let Some(backup) = recent.iter_mut().find(|backup| backup.id == *id)
    {
        backup.verification = SeenVerification::Read(result.clone());
    }
    let view = StoreView {
        genesis,
        went_back: newest.as_ref().and_then(|backup| backup.went_back.clone()),
        newest_backup: newest.map(|backup| backup.summary),
        conditional_writes,
        size,
        trace,
        commands,
        verify,
    };
    Ok((view, recent))
}

/// Whether an object shows that a cluster existed, readable or not. The spec alone does not: kops or an
/// operator may write it before there is a cluster.
fn trace(layout: &Layout, objects: &[ObjectMeta]) -> Option<String> {
    let created = layout.created();
    let shows = |key: &str| key == created || layout.split(key).is_some_and(|(_, file)| is_marker(file));
    let mut keys = objects.iter().map(|object| object.key.as_str());
    keys.rfind(|key| shows(key)).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backup::testing::{EVER, cluster, store, store_view};

    #[tokio::test]
    async fn what_cannot_be_understood_shows_a_cluster_all_the_same() {
        let meta = "prod/2023-11-14T22:13:20Z-000001/_etcd_backup.meta";
        let rows: [(&str, Option<&str>); 7] = [
            (
                "prod/control/etcd-cluster-created",
                Some("prod/control/etcd-cluster-created"),
            ),
            (meta, Some(meta)),
            (
                "prod/2023-11-14T22:13:20Z-000001/backup.json",
                Some("prod/2023-11-14T22:13:20Z-000001/backup.json"),
            ),
            // An upload in progress, a spec that kops wrote before there is a cluster, another cluster's
            // marker.
            ("prod/2023-11-14T22:13:20Z-000001/etcd.backup.gz", None),
            ("prod/control/etcd-cluster-spec", None),
            ("events/control/etcd-cluster-created", None),
            ("prod/control/etcd-cluster-created/x", None),
        ];
        for (key, expected) in rows {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path());
            store.put(key, Bytes::from_static(b"garbage")).await.unwrap();
            let view = store_view(&store, &cluster(), || EVER).await.unwrap();
            assert_eq!(view.trace.as_deref(), expected, "{key}");
            assert_eq!((view.genesis, view.newest_backup), (None, None), "{key}");
        }
    }
}
