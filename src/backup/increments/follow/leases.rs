//! What the leases of stored keys were granted.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::ports::Etcd;

use crate::backup::increments::increment::Lease;

/// etcd is asked for so many at a time.
const AT_ONCE: usize = 16;
/// An increment does not wait longer for all of them together: an etcd that has just stopped must not keep its last changes
/// from the store.
const WITHIN: Duration = Duration::from_secs(2);

/// Asks for all of them; gives also those of which etcd has said nothing. A lease that has ended needs no TTL: its keys'
/// deletion follows.
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
