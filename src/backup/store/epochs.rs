//! The store's record of epochs: `control/epochs/<n>`, each written once.

use crate::model::{ClusterName, Genesis};
use crate::ports::{Created, ObjectMeta, ObjectStore, PortError, PortResult};

use super::layout::Layout;

/// The outcome of recording an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// This genesis is the epoch's: written now, or by an earlier attempt whose answer was lost.
    Created,
    /// Another genesis is recorded for the epoch.
    Exists(Box<Genesis>),
}

/// Records the genesis of its epoch, unless another is recorded.
///
/// # Errors
/// Permanent when the store ignores `If-None-Match` or holds a record that cannot be read; outcome unknown
/// when the answer was lost: calling again with the same genesis is safe.
pub async fn record_epoch(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    genesis: &Genesis,
) -> PortResult<Recorded> {
    let layout = Layout::of(store, cluster);
    let key = layout.epoch(genesis.epoch);
    let mut text = serde_json::to_vec_pretty(genesis)
        .map_err(|error| PortError::Permanent(format!("cannot write the genesis: {error}")))?;
    text.push(b'\n');
    match store.create(&key, text.into()).await? {
        Created::Created => Ok(Recorded::Created),
        Created::Exists(there) => {
            let there = parse(store, cluster, &layout, &key, &there)?;
            Ok(if there.same_value(genesis) {
                Recorded::Created
            } else {
                Recorded::Exists(Box::new(there))
            })
        }
    }
}

/// The newest recorded genesis; `None` only if the store says that there is no record.
///
/// # Errors
/// What the store answered; permanent when the newest record cannot be read.
pub async fn newest_epoch(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Option<Genesis>> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(&layout.epochs()).await?;
    newest_of(store, cluster, &layout, &objects).await
}

/// The same, from a listing of all objects of the cluster.
pub(super) async fn newest_of(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    layout: &Layout,
    objects: &[ObjectMeta],
) -> PortResult<Option<Genesis>> {
    let newest = objects
        .iter()
        .filter_map(|object| layout.split_epoch(&object.key))
        .max();
    let Some(epoch) = newest else {
        return Ok(None);
    };
    let key = layout.epoch(epoch);
    // A listed record that cannot be found is not absent: epochs are never deleted.
    let text = store.get_small(&key).await?.ok_or_else(|| {
        PortError::Retryable(format!(
            "{}: {key} is listed and cannot be read",
            store.describe()
        ))
    })?;
    parse(store, cluster, layout, &key, &text).map(Some)
}

fn parse(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    layout: &Layout,
    key: &str,
    text: &[u8],
) -> PortResult<Genesis> {
    let wrong = |why: String| {
        PortError::Permanent(format!(
            "{}: {key} is not a record of an epoch of {cluster}: {why}",
            store.describe()
        ))
    };
    let genesis: Genesis = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if layout.split_epoch(key) != Some(genesis.epoch) || genesis.cluster != *cluster {
        return Err(wrong(format!(
            "it is of epoch {} of {}",
            genesis.epoch, genesis.cluster
        )));
    }
    Ok(genesis)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
