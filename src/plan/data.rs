//! This node's data directory: which state it must have before etcd is started, and what follows from its
//! loss (rules 5 and 6).

use std::time::Duration;

use super::context::{Context, names};
use super::failure::is_lost;
use super::invitation::{invitations, linearizable_lists};
use super::removed::{self, Confirmation};
use crate::model::{
    Action, ActionKind, Assignment, BackupId, ClusterId, DataState, Fact, Genesis, InitialState, MemberId,
    ReasonCode, Role,
};

/// Whether etcd may be started on the existing data.
pub(super) enum Data {
    /// Not now; the reason is recorded.
    Wait,
    /// Yes.
    Ready,
    /// After this action.
    First(Action),
}

/// Brings the data directory into the state that the assignment needs. Existing data is replaced only for a
/// confirmed genesis (rule 10).
pub(super) fn prepare(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Data {
    let wanted = wanted(cx, genesis, assignment);
    let takes_away = matches!(&wanted, Data::First(Action::ReplaceData { .. }));
    let there = !matches!(cx.obs.me.data, Fact::Known(DataState::Missing));
    if takes_away && there && cx.obs.elector.hearsay {
        return Data::Wait;
    }
    wanted
}

fn wanted(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Data {
    let data = match &cx.obs.me.data {
        Fact::Known(data) => data,
        Fact::Absent | Fact::Unreachable(_) => return Data::Wait,
    };
    if let DataState::Present {
        cluster_id,
        member_id,
    } = data
        && assignment.is_of(*cluster_id, *member_id)
        && !mutant!(ReplacesOwnData)
    {
        return Data::Ready;
    }
    if let Some(backup) = assignment.restore.as_ref().filter(|_| !assignment.restored) {
        return restore_data(cx, assignment, backup.clone());
    }
    match (assignment.role, data) {
        (Role::Founder, DataState::Missing)
            if assignment.initial_state == InitialState::New && !assignment.started =>
        {
            Data::Ready
        }
        (Role::Joiner, _)
            if !assignment.started
                && invitations(cx, genesis)
                    .iter()
                    .any(|invitation| invitation.member.id == assignment.member_id) =>
        {
            if *data == DataState::Missing {
                return Data::Ready;
            }
            move_away(cx, genesis, assignment, data)
        }
        (_, DataState::Present { .. }) if mutant!(ReplacesOwnData) => Data::First(Action::ReplaceData {
            epoch: assignment.epoch,
            why: String::new(),
            staged: false,
        }),
        (_, DataState::Missing) => {
            report_lost_data(cx, genesis, "the data directory is gone");
            Data::Wait
        }
        (_, DataState::Unusable { why, .. }) => {
            report_lost_data(cx, genesis, why);
            Data::Wait
        }
        (_, DataState::Present { cluster_id, .. }) if genesis.replaces(*cluster_id) => {
            let older = "the data directory is of an epoch that was replaced: it was set back";
            report_lost_data(cx, genesis, older);
            Data::Wait
        }
        (
            _,
            DataState::Present {
                cluster_id,
                member_id,
            },
        ) => {
            if *cluster_id == genesis.cluster_id && reported_removed(cx, genesis, assignment, *member_id) {
                move_away(cx, genesis, assignment, data)
            } else {
                foreign(cx, assignment, *cluster_id, *member_id)
            }
        }
    }
}

/// True if a peer's list, read through quorum, does not have the member. That only starts a check. Data of a
/// removed member is either older than the node's new member, or etcd created it in an empty directory. In
/// the second case etcd took its ID from a peer, which may not know of the removal yet.
fn reported_removed(
    cx: &Context<'_>,
    genesis: &Genesis,
    assignment: &Assignment,
    member_id: MemberId,
) -> bool {
    linearizable_lists(cx, genesis)
        .iter()
        .any(|(_, list)| assignment.is_current_in(list) && list.get(member_id).is_none())
}

/// Halts: nothing shows that this data was replaced, so it may be the only copy of another cluster's data.
fn foreign(
    cx: &mut Context<'_>,
    assignment: &Assignment,
    cluster_id: ClusterId,
    member_id: MemberId,
) -> Data {
    cx.halt(
        ReasonCode::ForeignData,
        format!(
            "{} holds member {member_id} of cluster {cluster_id}, expected member {} of cluster {}: move it away by hand; this \
             node looks again every 15 s",
            assignment.data_dir.display(),
            assignment.member_id,
            assignment.cluster_id
        ),
    );
    Data::Wait
}

/// Moves data into the archive. Rule 5 allows that only for a newer epoch, for a removal that a linearizable
/// member list confirms, or when the owner of the data directory reports the data unusable.
fn move_away(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment, data: &DataState) -> Data {
    let why = match data {
        DataState::Unusable { .. } => "unusable",
        DataState::Present {
            cluster_id,
            member_id,
        } if *cluster_id == genesis.cluster_id => {
            let removal = if reported_removed(cx, genesis, assignment, *member_id) {
                removed::removal(cx, *cluster_id, *member_id, assignment.listed)
            } else {
                Confirmation::No
            };
            match removal {
                Confirmation::Certain => "removed",
                Confirmation::First(action) => return Data::First(action),
                Confirmation::No => {
                    cx.because(
                        ReasonCode::RemovalUnconfirmed,
                        "the old data is kept until its removal is confirmed by quorum",
                    );
                    return Data::Wait;
                }
            }
        }
        DataState::Present { cluster_id, .. } if genesis.replaces(*cluster_id) => "older-epoch",
        DataState::Present {
            cluster_id,
            member_id,
        } => return foreign(cx, assignment, *cluster_id, *member_id),
        DataState::Missing => return Data::Ready,
    };
    cx.because(
        ReasonCode::Archive,
        format!("{data} goes into the archive: {why}"),
    );
    Data::First(Action::ReplaceData {
        epoch: assignment.epoch,
        why: why.to_owned(),
        staged: false,
    })
}

fn restore_data(cx: &mut Context<'_>, assignment: &Assignment, backup: BackupId) -> Data {
    if cx
        .obs
        .staged
        .as_ref()
        .is_some_and(|(epoch, id)| *epoch == assignment.epoch && *id == backup)
    {
        cx.because(
            ReasonCode::RestoreActivated,
            "the restored data is moved into place; the old data goes into the archive",
        );
        let why = "older-epoch".to_owned();
        return Data::First(Action::ReplaceData {
            epoch: assignment.epoch,
            why,
            staged: true,
        });
    }
    if cx.obs.restore.running {
        cx.because(
            ReasonCode::Restoring,
            format!("{backup} is fetched, checked and restored next to the old data"),
        );
        return Data::Wait;
    }
    if let Some(error) = &cx.obs.restore.error {
        let text = format!("{backup} could not be restored here: {error}");
        cx.because(ReasonCode::RestoreFailed, text);
    }
    if !cx.may_try(
        ActionKind::StageRestore,
        Duration::from_secs(1),
        Duration::from_mins(1),
    ) {
        return Data::Wait;
    }
    Data::First(if cx.obs.fetched.as_ref() == Some(&backup) {
        Action::StageRestore {
            epoch: assignment.epoch,
            backup,
        }
    } else {
        Action::FetchBackup { backup }
    })
}

/// Reports the loss and its consequence: the coordinator replaces the member, or a person restores a backup.
fn report_lost_data(cx: &mut Context<'_>, genesis: &Genesis, what: &str) {
    let others_gone = cx
        .known_peers()
        .all(|(_, s)| !genesis.members.contains_key(&s.node) || is_lost(&s.data, genesis));
    let somebody_serves = cx
        .known_peers()
        .any(|(_, s)| s.etcd.known().is_some_and(|e| e.leader.is_some()));
    if somebody_serves {
        cx.because(
            ReasonCode::DataGone,
            format!("{what}; the coordinator will replace this member"),
        );
        return;
    }
    let silent = cx.silent();
    if others_gone && silent.is_empty() {
        let whose = if genesis.members.len() > 1 {
            "every other member has lost its data too"
        } else {
            "there is no other member"
        };
        cx.halt(
            ReasonCode::AllDataLost,
            format!(
                "{what}, and {whose}: nothing recovers by itself; `etcd-agent restore latest` opens epoch {} from the \
                 newest backup, what was written after it is lost",
                genesis.epoch.next()
            ),
        );
    } else {
        cx.because(
            ReasonCode::DataGone,
            format!(
                "{what}, and no member with quorum is in reach (silent: {}); this node waits",
                names(&silent)
            ),
        );
    }
}
