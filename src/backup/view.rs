//! What the planner needs of the store, in one listing and at most four small reads.

use crate::model::{ClusterName, Fact, StoreView};
use crate::ports::{ObjectStore, PortResult};

use super::layout::Layout;
use super::{catalogue, control, wanted};

/// Looks at the store. Whether it honours `If-None-Match` is tried only where no epoch is recorded yet: a view of
/// a running cluster's store writes nothing.
///
/// # Errors
/// What the store answered: then all of it is unknown, and nothing of it absent.
pub async fn store_view(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<StoreView> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await?;
    let genesis = control::newest_of(store, cluster, &layout, &objects).await?;
    let newest_backup = catalogue::newest_of(store, &layout, &objects).await?;
    let verify = catalogue::verifications_of(store, &layout, &objects).await?;
    let spec = layout.spec();
    let size = if objects.iter().any(|object| object.key == spec) {
        wanted::wanted_size(store, cluster).await?
    } else {
        Fact::Absent
    };
    // `create` itself refuses where the header is ignored, so `true` risks nothing.
    let conditional_writes = genesis.is_some() || store.conditional_writes().await?;
    Ok(StoreView {
        genesis,
        newest_backup,
        conditional_writes,
        size,
        verify,
    })
}
