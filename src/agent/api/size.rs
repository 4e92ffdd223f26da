//! Sets the wanted size of the cluster in the store, unless a configuration file sets it.

use std::time::Duration;

use crate::backup::{Layout, Written, want_size};
use crate::model::{Directives, MOST_VOTERS, SizeOrder, SizeSource, SizeView, unwise_size};
use crate::plan;
use crate::ports::{OrderError, PortError};

use crate::agent::Agent;

use crate::agent::api::fresh;
use crate::agent::api::refused::refused;

/// Timeout of two or three small requests. It is shorter than the command line waits for an answer.
const WRITE: Duration = Duration::from_secs(20);

/// Writes another size to the store, or returns what would follow from it.
///
/// # Errors
/// Permanent when the order is refused; otherwise the error of the store.
pub(crate) async fn set(agent: &Agent, order: &SizeOrder) -> Result<SizeView, OrderError> {
    let mut seen = fresh::last(agent)?;
    let before = seen.spec.size;
    if let Some(why) = objection(order, seen.spec.nodes.len()) {
        return Err(refused(why).into());
    }
    // Nodes with another store would not read the size there, so this node would follow it alone. If this
    // node was ordered out, the others would not follow it.
    if let Some(why) = plan::other_stores(&seen).or_else(|| plan::ordered_out(&seen)) {
        return Err(refused(why).into());
    }
    let place = place(agent);
    if order.dry_run {
        let size = order.size;
        seen.spec.size = size;
        seen.spec_record.stored = Some(size);
        if let SizeSource::Store { said } = &mut seen.spec.size_source {
            *said = Some(size);
        }
        return Ok(SizeView {
            size,
            before,
            changed: false,
            place: place.unwrap_or_else(|why| why),
            decision: Some(plan::preview(&seen)),
        });
    }
    let place = place.map_err(refused)?;
    let Some(store) = &agent.ports.store else {
        return Err(PortError::Permanent("no store is configured".to_owned()).into());
    };
    let write = want_size(store.as_ref(), &agent.spec.cluster, order.size);
    let written = tokio::time::timeout(WRITE, write).await;
    // This node reads the store again at once, whatever the outcome is.
    agent.shared.with(|inner| inner.store.ask_again());
    agent.shared.wake.notify_one();
    let late = || PortError::OutcomeUnknown(format!("{place}: no answer within {} s", WRITE.as_secs()));
    let written = written.unwrap_or_else(|_| Err(late()));
    let changed = match written.map_err(OrderError::Store)? {
        Written::Done { before } => {
            let before = before.map_or_else(|| "nothing".to_owned(), |before| before.to_string());
            tracing::warn!(
                "an operator wants {} members: {place} had {before} before",
                order.size
            );
            true
        }
        Written::Same => false,
        Written::Overtaken => {
            return Err(PortError::Permanent(format!(
                "not done: somebody else wrote {place} at the same moment; see `etcd-agent spec get`, then try again"
            ))
            .into());
        }
    };
    // The size in the store alone never shrinks a cluster: the other agents receive the order too.
    let sized = |mine: &Directives| mine.sized(order.size, &agent.spec.node);
    let (directives, _) = agent.shared.direct(agent.ports.state.as_ref(), sized)?;
    if directives.out.contains(&agent.spec.node) {
        return Err(PortError::Permanent(format!(
            "{place} has {} members, but this node was ordered out meanwhile: give the order at another node, too",
            order.size
        ))
        .into());
    }
    Ok(SizeView {
        size: order.size,
        before,
        changed,
        place,
        decision: None,
    })
}

/// Why an order is refused.
fn objection(order: &SizeOrder, nodes: usize) -> Option<String> {
    let size = order.size;
    if !(1..=MOST_VOTERS).contains(&size) {
        return Some(format!("{size} members: expected 1 to {MOST_VOTERS}"));
    }
    if size > nodes {
        return Some(format!(
            "{size} members, and cluster.nodes has {nodes}: name at least {size} nodes on every node first"
        ));
    }
    let why = unwise_size(size).filter(|_| !order.force)?;
    Some(format!("{size} members: {why}; --force overrides"))
}

/// The object in the store that holds the size; an error names what holds it instead.
fn place(agent: &Agent) -> Result<String, String> {
    match (&agent.spec.size_source, &agent.ports.store) {
        (SizeSource::Store { .. }, Some(store)) => {
            let key = Layout::of(store.as_ref(), &agent.spec.cluster).spec();
            Ok(format!("{key} in {}", store.describe()))
        }
        (SizeSource::Config { file, line }, _) => Err(format!(
            "the configuration holds cluster.size ({}:{line}): change it there, on every node",
            file.display()
        )),
        _ => Err(
            "there is no store that all nodes share to keep the size in: set cluster.size in the configuration of every node"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_sizes_are_refused() {
        let rows = [
            (1, false, 5, None),
            (5, false, 5, None),
            (4, false, 5, Some("--force")),
            (4, true, 5, None),
            (7, false, 5, Some("cluster.nodes has 5")),
            (7, true, 5, Some("cluster.nodes has 5")),
            (9, false, 11, Some("--force")),
            (9, true, 11, None),
            (0, true, 5, Some("expected 1 to 9")),
            (10, true, 11, Some("expected 1 to 9")),
        ];
        for (size, force, nodes, expected) in rows {
            let order = SizeOrder {
                size,
                force,
                dry_run: false,
            };
            let said = objection(&order, nodes);
            let as_expected = match (&said, expected) {
                (None, None) => true,
                (Some(said), Some(part)) => said.contains(part),
                _ => false,
            };
            assert!(as_expected, "{size} of {nodes}, force {force}: {said:?}");
        }
    }
}
