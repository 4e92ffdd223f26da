//! Whether `etcd-agent gate` lets etcd start.

use std::time::Duration;

use crate::model::{ClusterId, Epoch, GateState, Generation, InitialSettings, MemberId};

/// After this long without an answer the gate decides from the persisted state alone.
pub const ALONE_AFTER: Duration = Duration::from_mins(1);

/// What the agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The epoch is confirmed.
    Clear,
    /// It is not confirmed; the text says what the agent is waiting for.
    NotYet(String),
    /// No agent has answered for this long.
    Silent(Duration),
}

/// All that the gate knows.
#[derive(Debug, Clone)]
pub struct Known {
    /// The persisted gate state: `None` when there is none, an error when it cannot be read.
    pub gate: Result<Option<GateState>, String>,
    /// Whether an assignment exists.
    pub assigned: bool,
    /// The generation that was cleared in this boot.
    pub cleared: Option<Generation>,
    /// What etcd's environment file says: `None` if there is none or it does not say it.
    pub initial: Option<InitialSettings>,
    /// Whether root has overridden the gate in this boot.
    pub overridden: bool,
    /// What the agent says.
    pub agent: Answer,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Let etcd start; the text says why.
    Pass(String),
    /// Hold the start back; the text says why.
    Wait(String),
}

/// The owner of the member's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Its member.
    pub member_id: MemberId,
    /// Whether it holds anything of raft's log.
    pub remembers: bool,
}

/// Decides. `log` returns the owner of the log at the place that the gate's state names, `None` if there is
/// no log, or why that is not known. It is called only when the answer matters.
///
/// Invariant: without an answer of the agent, voters of a replaced epoch cannot form a quorum, because every
/// quorum of its voters intersects every majority of the electorate, and such a majority has replaced the
/// epoch.
pub fn decide(known: &Known, log: impl Fn(&GateState) -> Result<Option<Log>, String>) -> Step {
    if known.overridden {
        return Step::Pass("overridden by root for this boot".to_owned());
    }
    match &known.gate {
        Ok(None) if !known.assigned => {
            return Step::Pass("this node is not managed".to_owned());
        }
        // Even with the agent's confirmation the data directory is checked: systemd restarts a crashed etcd
        // by itself, before the agent can see what happened to its data.
        Ok(Some(gate)) => {
            if let Err(why) = check_own_data(gate, known.initial.as_ref(), &log) {
                return Step::Wait(why);
            }
            if known.cleared.is_some_and(|cleared| cleared >= gate.generation) {
                return Step::Pass(format!("epoch {} is confirmed in this boot", gate.epoch));
            }
        }
        _ => {}
    }
    let silence = match &known.agent {
        Answer::Clear => return Step::Pass("the agent has confirmed the epoch".to_owned()),
        Answer::NotYet(text) => return Step::Wait(text.clone()),
        Answer::Silent(silence) => *silence,
    };
    if silence < ALONE_AFTER {
        let left = ALONE_AFTER.saturating_sub(silence).as_secs();
        return Step::Wait(format!(
            "no agent answers yet; deciding alone in {left} s (is etcd-agent.service running?)"
        ));
    }
    let gate = match &known.gate {
        Ok(Some(gate)) => gate,
        Ok(None) => return Step::Wait("no agent answers, and it left no gate.json behind".to_owned()),
        Err(why) => return Step::Wait(format!("no agent answers, and {why}")),
    };
    match may_start_alone(gate) {
        Ok(()) => Step::Pass(format!(
            "no agent answers; epoch {} is the newest known here, and no newer one can have been opened unseen",
            gate.epoch
        )),
        Err(why) => Step::Wait(format!("no agent answers, and {why}")),
    }
}

/// A member that has started before must have its data, and serve the newest epoch. One that never has must
/// not start on the data of another. Without its data it would come back as the same voter with no memory:
/// `initial-cluster-state=existing` does not prevent that (measured on 3.5: it starts with an empty log and
/// panics at the leader's first heartbeat, if there is a leader).
fn check_own_data(
    gate: &GateState,
    initial: Option<&InitialSettings>,
    log: &impl Fn(&GateState) -> Result<Option<Log>, String>,
) -> Result<(), String> {
    if gate.epoch == Epoch::default() {
        return Err(format!(
            "nothing is assigned to this node yet, and epoch {} is known",
            gate.newest_epoch
        ));
    }
    if gate.newest_epoch != gate.epoch {
        return Err(format!(
            "this node's data is of epoch {}, epoch {} is known",
            gate.epoch, gate.newest_epoch
        ));
    }
    let place = gate.wal_dir.as_ref().unwrap_or(&gate.data_dir).display();
    let Some(found) = log(gate)? else {
        // It has no data yet.
        return if gate.started_once {
            Err(format!("there is no log in {place}"))
        } else {
            check_settings(gate, initial)
        };
    };
    // This applies before the first start too: etcd takes the member from an existing log, and not from its
    // settings. That log may be of the previous epoch, which a restore has not replaced yet, or of the member
    // that this one replaces.
    if (found.cluster_id, found.member_id) != (gate.cluster_id, gate.member_id) {
        return Err(format!(
            "{place} holds member {} of cluster {}, expected member {} of cluster {}",
            found.member_id, found.cluster_id, gate.member_id, gate.cluster_id
        ));
    }
    if gate.started_once && !found.remembers {
        return Err(format!("the log in {place} remembers nothing"));
    }
    Ok(())
}

/// An etcd without data starts or joins the cluster that its settings name. The settings of the previous
/// assignment may name a replaced epoch, and may tell etcd to form a new cluster. They stay in force when
/// `etcd-agent-apply.service` fails.
fn check_settings(gate: &GateState, initial: Option<&InitialSettings>) -> Result<(), String> {
    let Some(expected) = &gate.initial else {
        return Ok(());
    };
    if initial == Some(expected) || mutant!(SettingsUnchecked) {
        return Ok(());
    }
    let found = initial.map_or_else(|| "no such setting".to_owned(), ToString::to_string);
    Err(format!(
        "etcd's environment file has {found}, expected {expected}: etcd-agent-apply.service has not written it yet"
    ))
}

fn may_start_alone(gate: &GateState) -> Result<(), String> {
    if !gate.started_once {
        return Err("its member has never started".to_owned());
    }
    // A quorum of the voters and the majority that opened a later epoch may share only one elector. That
    // elector may not have learned of the epoch, but it has accepted it, or its former memory has.
    if gate.voted > gate.epoch {
        return Err(format!(
            "this node's elector may have accepted a genesis of epoch {}, which may be open",
            gate.voted
        ));
    }
    let quorum = gate.voters / 2 + 1;
    let majority = gate.electors / 2 + 1;
    if gate.voters == 0 || quorum + majority <= gate.electors {
        return Err(format!(
            "a quorum of its {} voters and a majority of its {} electors need not meet",
            gate.voters, gate.electors
        ));
    }
    Ok(())
}
#[cfg(test)]
mod tests;
