//! Reads the store's view when it is due.

use crate::agent::Agent;
use crate::agent::state::store::Idle;
use crate::model::{Fact, SteadyMs};

/// Asks the store in the background when its last answer is too old.
pub(crate) fn refresh(agent: &Agent, now: SteadyMs, no_epoch: bool, idle: Option<Idle>) {
    let Some(store) = agent.ports.store.clone() else {
        return;
    };
    if !agent
        .shared
        .with(|inner| inner.store.start_due(now, no_epoch, idle))
    {
        return;
    }
    let agent = agent.clone();
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
        agent
            .shared
            .with(|inner| inner.store.answered(Fact::from(view), now));
        agent.shared.wake.notify_one();
    });
}
