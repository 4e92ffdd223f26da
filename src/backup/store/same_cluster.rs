//! Whether backups of a cluster of etcd continue those that are in the store under its name.

use crate::model::{BackupSummary, ClusterId, ClusterName};
use crate::ports::{ObjectStore, PortError, PortResult};

use super::epochs::newest_epoch;
use super::layout::{Layout, MANIFEST};
use super::manifest::Manifest;

/// Refuses the cluster `own` if `newest`, the newest backup of the name, is of another one. After a restore etcd has
/// another ID: that of the newest epoch if agents restored it, and `accepted` if a person did. A backup that does not
/// say its cluster refuses nothing.
///
/// # Errors
/// What the store answered; permanent for another cluster.
pub async fn refuse_other_cluster(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    newest: Option<&BackupSummary>,
    own: ClusterId,
    accepted: Option<ClusterId>,
) -> PortResult<()> {
    let Some(newest) = newest else {
        return Ok(());
    };
    let key = Layout::of(store, cluster).in_backup(&newest.id, MANIFEST);
    let manifest = store.get_small(&key).await?;
    let Some(Ok(manifest)) = manifest.map(|text| Manifest::parse(&newest.id, &text)) else {
        return Ok(());
    };
    let same = [Some(manifest.cluster_id), accepted].contains(&Some(own));
    if same
        || newest_epoch(store, cluster)
            .await?
            .map(|genesis| genesis.cluster_id)
            == Some(own)
    {
        return Ok(());
    }
    Err(PortError::Permanent(format!(
        "etcd serves cluster {own}, and the newest backup of {cluster} in {}, {}, is of cluster {}: set another \
         cluster.name; if {cluster} was restored by hand and has the new ID since, add --cluster-id {own}",
        store.describe(),
        newest.id,
        manifest.cluster_id
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backup::testing::{EVER, cluster, etcd, genesis, meta, store};
    use crate::backup::trailer::snapshot;
    use crate::backup::{newest, record_epoch, take_full};

    #[tokio::test]
    async fn another_cluster_under_the_name_is_refused_unless_a_restore_explains_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let asked = async |own, accepted: Option<u64>| {
            let accepted = accepted.map(ClusterId);
            let newest = newest(&store, &cluster(), || EVER).await.unwrap();
            refuse_other_cluster(&store, &cluster(), newest.as_ref(), ClusterId(own), accepted).await
        };
        assert_eq!(asked(0xab, None).await, Ok(()), "an empty store");
        // Of cluster 1.
        take_full(&etcd(snapshot(2)), &store, &meta(1000), |_| {})
            .await
            .unwrap();
        assert_eq!(asked(1, None).await, Ok(()));
        for accepted in [None, Some(0xac)] {
            let why = asked(0xab, accepted).await.unwrap_err().to_string();
            assert!(
                why.contains("serves cluster ab") && why.contains("is of cluster 1"),
                "{why}"
            );
            assert!(why.contains("--cluster-id ab"), "{why}");
        }
        assert_eq!(asked(0xab, Some(0xab)).await, Ok(()), "restored by hand");
        let mut restored = genesis(2, "b");
        restored.cluster_id = ClusterId(0xab);
        record_epoch(&store, &cluster(), &restored).await.unwrap();
        assert_eq!(asked(0xab, None).await, Ok(()), "restored by agents");
    }
}
