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
        let known = agent.shared.with(|inner| inner.store.recent().to_vec());
        let cluster = &agent.spec.cluster;
        let looked = crate::backup::look_at_store(store.as_ref(), cluster, || clock.now(), &known).await;
        let (view, recent) = match looked {
            Ok((view, recent)) => (Ok(view), Some(recent)),
            Err(error) => (Err(error), None),
        };
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
        // The planner has its answer: only the status page waits for the rest.
        if let Some(mut recent) = recent {
            if let Err(error) = crate::backup::read_verifications(store.as_ref(), cluster, &mut recent).await
            {
                tracing::warn!("the result of a verification cannot be read: {error}");
            }
            agent.shared.with(|inner| inner.store.note_recent(recent));
        }
    });
}
