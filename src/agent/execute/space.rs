//! The way back from NOSPACE: etcd's history is compacted, and the alarm is disarmed.

use crate::agent::Agent;
use crate::agent::execute::fence::{fenced_list, stale};
use crate::agent::jobs::space;
use crate::model::{AlarmKind, Compaction, RaftTerm, Revision, is_quarantine};
use crate::ports::PortResult;

/// Starts to compact etcd's history before this revision, if this node still leads in the same term.
///
/// # Errors
/// Retryable when another member leads.
pub(crate) async fn compact(agent: &Agent, revision: Revision, term: RaftTerm) -> PortResult<()> {
    let list = fenced_list(agent, term).await?;
    let compaction = Compaction {
        cluster_id: list.cluster_id,
        revision,
    };
    space::compact(agent, compaction);
    Ok(())
}

/// Disarms the alarm NOSPACE of all members.
///
/// # Errors
/// Retryable when another member leads or the cluster is in quarantine; otherwise of etcd.
pub(crate) async fn disarm(agent: &Agent, term: RaftTerm) -> PortResult<()> {
    fenced_list(agent, term).await?;
    let alarms = agent.ports.etcd.alarms().await?;
    // A quarantine that begins later finds NOSPACE raised, and is refused (`begin` in
    // `src/agent/api/quarantine.rs`).
    if alarms.iter().copied().any(is_quarantine) {
        return Err(stale(
            "the cluster is in quarantine, which etcd 3.4 and 3.5 would lift with NOSPACE",
        ));
    }
    for (member, alarm) in alarms {
        if alarm == AlarmKind::NoSpace {
            agent.ports.etcd.disarm(member, alarm).await?;
            tracing::warn!(etcd_agent.member_id = %member, "the alarm NOSPACE of member {member} is disarmed");
        }
    }
    Ok(())
}
