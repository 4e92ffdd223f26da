//! The answer of `restore` and `bootstrap`, and whether the first cluster was formed as asked already.

use serde::Serialize;

use super::exit::{Exit, Outcome};
use super::out::{Format, Output};
use super::{health, out, status_view};
use crate::model::{AdminStatus, BackupId, Epoch, NodeName, Origin};

/// An epoch that serves, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Opened {
    /// False if it served already.
    pub(super) changed: bool,
    pub(super) epoch: Epoch,
    /// The backup that was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<BackupId>,
    pub(super) message: String,
}

impl Opened {
    /// The newest epoch that is seen.
    pub(super) fn of(seen: &AdminStatus, changed: bool) -> Self {
        let epoch = health::newest_epoch(seen);
        let message = if changed {
            format!("epoch {epoch} serves")
        } else {
            format!("the cluster was formed already, as epoch {epoch}")
        };
        Self {
            changed,
            epoch,
            backup: None,
            message,
        }
    }
}

/// Reports an epoch; for people with the state of the cluster.
pub(super) fn report(seen: &AdminStatus, opened: &Opened, output: Output) -> Outcome {
    if output.format == Format::Table {
        if !opened.changed {
            super::progress::note(&opened.message);
        }
        out::print_clean(&status_view::shown(seen, status_view::Form::Table)?)?;
    } else {
        output.print_own(opened, |opened| opened.message.clone())?;
    }
    Ok(Exit::Ok)
}

/// True if it is certain that `bootstrap` with these lost nodes has nothing to do: the first epoch was opened empty and
/// serves, no other epoch is reported, the nodes of `without` were neither electors nor members, and each node that
/// knows the record of the epoch has the same one. Otherwise the cluster may be another one than the operator wants.
pub(super) fn is_formed(seen: &AdminStatus, without: &[NodeName]) -> bool {
    let Some(genesis) = &seen.node.genesis else {
        return false;
    };
    let first = genesis.epoch == Epoch(1) && health::newest_epoch(seen) == Epoch(1);
    let lost = |node: &NodeName| genesis.electorate.contains_key(node) || genesis.members.contains_key(node);
    let mut others = seen
        .peers
        .values()
        .filter_map(|peer| peer.known()?.genesis.as_ref());
    let members = genesis.members.len().max(1);
    first
        && health::serving_after(seen, Epoch(0)) > members / 2
        && genesis.origin == Origin::Empty
        && !seen.starting
        && !without.iter().any(lost)
        && others.all(|other| other.same_value(genesis))
}
