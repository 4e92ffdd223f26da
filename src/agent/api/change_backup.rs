//! An operator's order about one backup: to delete it, to keep it, or to note something on it.

use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::no_store;
use crate::agent::jobs::prune::{call, judged, restoring};
use crate::backup::{self, BackupName, MarkChange, Marked, Removed};
use crate::model::{BackupChange, BackupChangeView, BackupId, BackupOrder, Kept, Note};
use crate::plan::{self, Deletion, Stored};
use crate::ports::{OrderError, PortError};
use crate::telemetry::message_ids;

/// Timeout of a few small requests.
const MARK: Duration = Duration::from_mins(1);
/// Timeout of the removal of one backup, with up to some ten thousand increments.
const DELETE: Duration = Duration::from_hours(1);

/// Carries an order out. It goes on if the client that gave it goes away.
///
/// # Errors
/// When the order is refused, or the store did not carry it out. Giving it again is safe.
pub(crate) async fn change(agent: &Agent, order: &BackupOrder) -> Result<BackupChangeView, OrderError> {
    let (agent, order) = (agent.clone(), order.clone());
    let within = match order.change {
        BackupChange::Delete => DELETE,
        BackupChange::Keep { .. } | BackupChange::Release | BackupChange::Annotate { .. } => MARK,
    };
    let work = async move { tokio::time::timeout(within, carry_out(&agent, order)).await };
    let unknown = |why: String| OrderError::Store(PortError::OutcomeUnknown(why));
    match tokio::spawn(work).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(unknown(format!("not done within {} s", within.as_secs()))),
        Err(error) => Err(unknown(format!("{error}; see `journalctl -u etcd-agent`"))),
    }
}

async fn carry_out(agent: &Agent, order: BackupOrder) -> Result<BackupChangeView, OrderError> {
    if let Some(why) = order.change.objection() {
        return Err(refused(why));
    }
    let id = &order.backup;
    if id.as_str().parse::<BackupName>().is_err() {
        return Err(refused(format!(
            "{id} is not the name of a backup: expected one that `etcd-agent backup list` shows"
        )));
    }
    let (changed, message) = match &order.change {
        BackupChange::Delete => delete(agent, id, order.dry_run).await?,
        BackupChange::Keep { reason } => {
            let change = MarkChange::Keep(Kept {
                since: agent.ports.clock.now(),
                node: agent.spec.node.clone(),
                reason: reason.clone(),
            });
            let said = ("is kept whatever retention says", "is kept already");
            mark(agent, &order, &change, said).await?
        }
        BackupChange::Release => {
            let said = ("is left to retention again", "is left to retention already");
            mark(agent, &order, &MarkChange::Release, said).await?
        }
        BackupChange::Annotate { text } => {
            let note = text.as_ref().map(|text| Note {
                at: agent.ports.clock.now(),
                node: agent.spec.node.clone(),
                text: text.clone(),
            });
            let said = match note {
                Some(_) => ("has the note", "has this note already"),
                None => ("has no note any more", "has no note"),
            };
            mark(agent, &order, &MarkChange::Annotate(note), said).await?
        }
    };
    Ok(BackupChangeView {
        backup: order.backup,
        changed,
        message,
    })
}

/// Changes the marks; `said` is for a change, and for none.
async fn mark(
    agent: &Agent,
    order: &BackupOrder,
    change: &MarkChange,
    said: (&str, &str),
) -> Result<(bool, String), OrderError> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let (cluster, id) = (&agent.spec.cluster, &order.backup);
    let marked = backup::change_marks(store.as_ref(), cluster, id, change, &call(agent), order.dry_run).await;
    match marked.map_err(OrderError::Store)? {
        Marked::Changed if order.dry_run => Ok((false, format!("in a dry run: backup {id} {}", said.0))),
        Marked::Changed => {
            tracing::info!("on an operator's order, backup {id} {}", said.0);
            // The second store gets the marks too.
            agent.shared.copy_wanted.notify_one();
            Ok((true, format!("backup {id} {}", said.0)))
        }
        Marked::Same => Ok((false, format!("backup {id} {}", said.1))),
        Marked::Gone(why) => Err(OrderError::Store(PortError::Permanent(why))),
        Marked::Refused(why) => Err(refused(why)),
    }
}

async fn delete(agent: &Agent, id: &BackupId, dry_run: bool) -> Result<(bool, String), OrderError> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let seen = judged(agent).await.map_err(OrderError::Store)?;
    let chain = agent
        .shared
        .with(|inner| inner.jobs.chain().map(|chain| chain.backup.clone()));
    let decided = plan::may_delete(
        id,
        &Stored {
            verdicts: &seen.verdicts,
            unreadable: &seen.unreadable,
            chain: chain.as_ref(),
            restoring: &restoring(agent),
        },
    );
    let gone = || (false, format!("there is no backup {id}"));
    match decided {
        Deletion::Refused(why) => return Err(refused(why)),
        Deletion::Gone if dry_run => return Ok(gone()),
        Deletion::Allowed if dry_run => return Ok((false, format!("in a dry run: backup {id} is deleted"))),
        // What an interrupted removal left is removed too.
        Deletion::Gone | Deletion::Allowed => {}
    }
    let removed = backup::remove_named(store.as_ref(), &agent.spec.cluster, id, &call(agent)).await;
    match removed.map_err(OrderError::Store)? {
        Removed::Done => {
            tracing::warn!(
                message_id = message_ids::BACKUPS_PRUNED,
                "an operator has deleted the backup {id}"
            );
            agent.shared.with(|inner| inner.store.ask_again());
            agent.shared.wake.notify_one();
            Ok((true, format!("backup {id} is deleted{}", the_copy(agent))))
        }
        Removed::Gone => Ok(gone()),
        Removed::Kept(why) => Err(refused(format!("backup {id} is not deleted: {why}"))),
        Removed::Refused(why) => Err(OrderError::Store(PortError::Permanent(format!(
            "the store refuses to delete backup {id}, which stays whole: {why}"
        )))),
    }
}

/// Nothing is ever removed from the second store.
fn the_copy(agent: &Agent) -> String {
    let copy = agent
        .shared
        .with(|inner| inner.copy.as_ref().map(|copy| copy.store.clone()));
    copy.map_or_else(String::new, |store| format!("; a copy in {store} stays"))
}

fn refused(why: String) -> OrderError {
    OrderError::Here(PortError::Permanent(why))
}
