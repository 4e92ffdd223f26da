//! Lists etcd's alarms, and disarms those whose cause is gone. Whether it is gone is judged from looks that
//! begin after the order.

use crate::agent::Agent;
use crate::agent::api::fresh;
use crate::agent::api::refused::refused;
use crate::model::{
    Alarm, AlarmKind, DisarmOrder, DisarmView, Fact, MemberId, NodeStatus, is_full, is_quarantine,
};
use crate::ports::{AgentHandle, PortResult};

/// The raised alarms, by node, read through quorum.
///
/// # Errors
/// Of etcd.
pub(crate) async fn list(agent: &Agent) -> PortResult<Vec<Alarm>> {
    let peers = agent.ports.peers.last_seen();
    let statuses = known(std::iter::once(Fact::Known(agent.status())).chain(peers.into_values()));
    let raised = agent.ports.etcd.alarms().await?;
    let mut alarms: Vec<Alarm> = raised
        .into_iter()
        .map(|(member_id, alarm)| Alarm {
            member_id,
            node: of_member(&statuses, member_id).map(|status| status.node.clone()),
            alarm,
        })
        .collect();
    alarms.sort_by(|one, other| (&one.node, one.alarm).cmp(&(&other.node, other.alarm)));
    Ok(alarms)
}

/// Disarms the alarms that the order means. All of them are checked first.
///
/// # Errors
/// Permanent when the cause of one does not seem to be gone and the order is not forced; otherwise of etcd.
pub(crate) async fn disarm(agent: &Agent, order: &DisarmOrder) -> PortResult<DisarmView> {
    let mut disarmed = list(agent).await?;
    disarmed.retain(|alarm| order.means(alarm));
    if !order.force && !disarmed.is_empty() {
        let seen = fresh::observation(agent).await?;
        let statuses = known(std::iter::once(Fact::Known(seen.me)).chain(seen.peers.into_values()));
        let quota = agent.spec.etcd.quota();
        for alarm in &disarmed {
            let size = of_member(&statuses, alarm.member_id)
                .and_then(|status| Some(status.etcd.known()?.db_size_bytes));
            if let Some(why) = objection(alarm, size, quota) {
                return Err(refused(why));
            }
        }
    }
    for alarm in &disarmed {
        agent.ports.etcd.disarm(alarm.member_id, alarm.alarm).await?;
        tracing::warn!(
            etcd_agent.member_id = %alarm.member_id,
            "an operator disarmed the alarm {} of member {}", alarm.alarm, alarm.member_id
        );
    }
    agent.shared.wake.notify_one();
    Ok(DisarmView {
        left: list(agent).await?,
        disarmed,
    })
}

/// The statuses that are known.
fn known(statuses: impl Iterator<Item = Fact<NodeStatus>>) -> Vec<NodeStatus> {
    let known = statuses.filter_map(|status| match status {
        Fact::Known(status) => Some(status),
        Fact::Absent | Fact::Unreachable(_) => None,
    });
    known.collect()
}

/// The status of the node whose etcd is this member.
fn of_member(statuses: &[NodeStatus], id: MemberId) -> Option<&NodeStatus> {
    let is = |status: &&NodeStatus| status.etcd.known().is_some_and(|etcd| etcd.member_id == id);
    statuses.iter().find(is)
}

/// Why the cause of an alarm does not seem to be gone. `size` is that of the member's database in bytes.
fn objection(alarm: &Alarm, size: Option<u64>, quota: Option<u64>) -> Option<String> {
    let node = alarm.node_name();
    if is_quarantine((alarm.member_id, alarm.alarm)) {
        return Some(
            "the cluster is in quarantine for a move to another version of etcd: `etcd-agent move --cancel` ends it"
                .to_owned(),
        );
    }
    match alarm.alarm {
        AlarmKind::Corrupt => Some(format!(
            "the data of member {} on {node} differs from the others' (CORRUPT): find out which data is \
             right, for example with `etcdctl endpoint hashkv --cluster`, and replace the wrong member; \
             --force disarms it anyway",
            alarm.member_id
        )),
        AlarmKind::NoSpace => {
            let quota = quota?;
            let Some(size) = size else {
                return Some(format!(
                    "the size of the database on {node} is not known, because its agent or its etcd does not \
                     answer; --force disarms the alarm anyway"
                ));
            };
            is_full(size, Some(quota)).then(|| {
                format!(
                    "the database on {node} has {size} bytes, and its quota is {quota}: etcd would soon raise \
                     the alarm again. Free space (`etcdctl compact`, `etcd-agent defrag --rolling`) or set a \
                     larger space.quota first; --force disarms it anyway"
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_stays_while_its_cause_does() {
        let alarm = |alarm| Alarm {
            member_id: MemberId(7),
            node: None,
            alarm,
        };
        let (space, corrupt) = (alarm(AlarmKind::NoSpace), alarm(AlarmKind::Corrupt));
        let table = [
            ("with space", &space, Some(94), Some(100), None),
            (
                "without space for one more request",
                &space,
                Some(95),
                Some(100),
                Some("would soon raise the alarm again"),
            ),
            ("of unknown size", &space, None, Some(100), Some("is not known")),
            ("without a quota", &space, None, None, None),
            (
                "other data",
                &corrupt,
                Some(1),
                Some(100),
                Some("differs from the others'"),
            ),
        ];
        for (what, alarm, size, quota, expected) in table {
            let found = objection(alarm, size, quota);
            assert_eq!(found.is_some(), expected.is_some(), "{what}: {found:?}");
            assert!(
                found.unwrap_or_default().contains(expected.unwrap_or_default()),
                "{what}"
            );
        }
    }
}
