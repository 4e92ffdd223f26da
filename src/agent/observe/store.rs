//! When the store is looked at: as rarely as what it could say allows, since each request has its price.

use std::time::Duration;

use crate::model::{BackupSummary, ClusterId, Fact, Revision, SteadyMs, StoreView};

use crate::agent::Agent;

/// How old the view may be: while there is no epoch, or the store did not answer.
const REFRESH_UNKNOWN: Duration = Duration::from_secs(2);
/// While something is written.
const REFRESH_ACTIVE: Duration = Duration::from_mins(5);
/// While nothing is.
const REFRESH_IDLE: Duration = Duration::from_hours(12);

/// Data of this cluster at this revision, with all nodes there and of one mind: while it stays the same only somebody else
/// can have written into the store.
pub(crate) type Still = (ClusterId, Revision);

/// How old the view may become.
fn limit(good: bool, still: Option<Still>, before: Option<Still>) -> Duration {
    match good {
        false => REFRESH_UNKNOWN,
        true if still.is_some() && still == before => REFRESH_IDLE,
        true => REFRESH_ACTIVE,
    }
}

/// The store as last heard of; asks it again beside the loop when that is old. A store that does not answer makes
/// its facts unknown, never absent.
pub(crate) fn view(agent: &Agent, now: SteadyMs, no_epoch: bool, still: Option<Still>) -> Fact<StoreView> {
    let Some(store) = &agent.ports.store else {
        return Fact::Absent;
    };
    let ask = agent.shared.with(|inner| {
        let known = inner.store_view().is_some();
        let limit = limit(known && !no_epoch, still, inner.store_still);
        let old = inner.store_seen.is_none_or(|seen| now.since(seen) >= limit);
        let ask = (old || inner.store_again) && !inner.store_asking;
        inner.store_asking |= ask;
        inner.store_again &= !ask;
        if ask {
            inner.store_still = still;
        }
        ask
    });
    if ask {
        let (agent, store) = (agent.clone(), store.clone());
        tokio::spawn(async move {
            let clock = agent.ports.clock.as_ref();
            let view = crate::backup::store_view(store.as_ref(), &agent.spec.cluster, || clock.now()).await;
            if let Err(error) = &view {
                tracing::warn!("the store cannot be read: {error}");
            }
            if let Ok(Some(full)) = view.as_ref().map(|view| view.newest_backup.as_ref()) {
                agent.shared.note_full(full, clock.now());
            }
            let now = clock.steady();
            agent.shared.with(|inner| {
                inner.store_asking = false;
                inner.store_seen = Some(now);
                inner.store_failures = match &view {
                    Ok(_) => 0,
                    Err(_) => inner.store_failures.saturating_add(1),
                };
                inner.store = Some(Fact::from(view));
            });
            agent.shared.wake.notify_one();
        });
    }
    let mut seen = agent.shared.with(|inner| inner.store.clone()).unwrap_or_default();
    // A full that this agent heard of meanwhile counts at once, not at the next look.
    if let Fact::Known(view) = &mut seen {
        let heard = agent.shared.newest_full.borrow();
        let both = view.newest_backup.iter().chain(heard.as_ref());
        // The clock may have been set back since.
        view.newest_backup = BackupSummary::newest(both, agent.ports.clock.now()).cloned();
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cluster_asks_nothing() {
        let at = |revision| Some((ClusterId(1), Revision(revision)));
        let restored = Some((ClusterId(2), Revision(7)));
        let rows = [
            ("nothing written since", true, at(7), at(7), REFRESH_IDLE),
            ("something written", true, at(8), at(7), REFRESH_ACTIVE),
            (
                "another cluster at this revision",
                true,
                at(7),
                restored,
                REFRESH_ACTIVE,
            ),
            ("a node is silent", true, None, at(7), REFRESH_ACTIVE),
            ("as long as one is", true, None, None, REFRESH_ACTIVE),
            ("the store did not answer", false, at(7), at(7), REFRESH_UNKNOWN),
        ];
        for (what, good, still, before, expected) in rows {
            assert_eq!(limit(good, still, before), expected, "{what}");
        }
    }
}
