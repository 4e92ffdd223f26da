//! The TTLs of the leases of stored keys.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::ports::Etcd;

use crate::backup::increments::increment::Lease;

/// Requests to etcd at a time.
const AT_ONCE: usize = 16;
/// The longest that an increment waits for all of them. The last changes of an etcd that has just stopped
/// must still reach the store.
const WITHIN: Duration = Duration::from_secs(2);

/// Asks for all of them. Returns the answers, and the IDs that were not answered. A lease that has ended
/// needs no TTL, because the deletion of its keys follows.
pub(super) async fn ask(etcd: &dyn Etcd, ids: BTreeSet<i64>) -> (Vec<Lease>, BTreeSet<i64>) {
    let until = Instant::now() + WITHIN;
    let asked = futures::stream::iter(ids).map(|id| async move {
        let answer = timeout_at(until, etcd.lease_ttl(id)).await;
        (id, answer)
    });
    let mut asked = asked.buffered(AT_ONCE);
    let (mut leases, mut unasked) = (Vec::new(), BTreeSet::new());
    while let Some((id, answer)) = asked.next().await {
        match answer {
            Ok(Ok(Some(ttl_s))) => leases.push(Lease { id, ttl_s }),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                tracing::debug!("the TTL of lease {id:x} is not known: {error}");
                unasked.insert(id);
            }
            Err(_) => {
                unasked.insert(id);
            }
        }
    }
    (leases, unasked)
}
