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

/// Disarms the alarms that the order means, without those of a quarantine. All of them are checked first.
///
/// # Errors
/// Permanent when the cause of one does not seem to be gone and the order is not forced, or when a quarantine
/// has to end first; otherwise of etcd.
pub(crate) async fn disarm(agent: &Agent, order: &DisarmOrder) -> PortResult<DisarmView> {
    let disarmed = meant(list(agent).await?, order).map_err(refused)?;
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

/// The raised alarms that the order means and may disarm. An alarm of a quarantine is none of them, forced or
/// not: `etcd-agent move --cancel` checks first that no node opens an epoch, which would lose what is written
/// since.
///
/// # Errors
/// Why a quarantine has to end first, in one line.
fn meant(raised: Vec<Alarm>, order: &DisarmOrder) -> Result<Vec<Alarm>, String> {
    let of_quarantine = |alarm: &Alarm| is_quarantine((alarm.member_id, alarm.alarm));
    let quarantined = raised.iter().any(of_quarantine);
    let meant = raised.into_iter().filter(|alarm| order.means(alarm));
    let (kept, meant): (Vec<Alarm>, Vec<Alarm>) = meant.partition(of_quarantine);
    let first =
        "`etcd-agent move --cancel` ends the quarantine, also with `--force` where a node does not answer";
    if quarantined && meant.iter().any(|alarm| alarm.alarm == AlarmKind::NoSpace) {
        return Err(format!(
            "the cluster is in quarantine, and etcd 3.4 and 3.5 would accept all writes without the alarm NOSPACE: {first}"
        ));
    }
    if meant.is_empty() && !kept.is_empty() {
        return Err(format!(
            "the cluster is in quarantine for a move to another version of etcd: {first}"
        ));
    }
    Ok(meant)
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
                     the alarm again. First free space (`etcdctl compact REVISION` with the revision of `etcd-agent \
                     status`, then `etcd-agent defrag --rolling`) or set a larger space.quota; --force disarms it anyway"
                )
            })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{QUARANTINE, seal};

    #[test]
    fn rule_2_no_order_to_disarm_ends_a_quarantine_even_if_it_is_forced() {
        let alarm = |member_id, alarm| Alarm {
            member_id,
            node: None,
            alarm,
        };
        let of = |(member, kind)| alarm(member, kind);
        let (begun, sealed) = (of(QUARANTINE), of(seal(1)));
        let space = alarm(MemberId(7), AlarmKind::NoSpace);
        let corrupt = alarm(MemberId(7), AlarmKind::Corrupt);
        for force in [false, true] {
            let all = DisarmOrder {
                force,
                ..DisarmOrder::default()
            };
            let only = |kind| DisarmOrder {
                alarm: Some(kind),
                ..all.clone()
            };
            let refused = |raised: &[&Alarm], order: &DisarmOrder| {
                let found = meant(raised.iter().copied().cloned().collect(), order);
                assert!(found.as_ref().unwrap_err().contains("move --cancel"), "{found:?}");
            };
            let disarms = |raised: &[&Alarm], order: &DisarmOrder| {
                meant(raised.iter().copied().cloned().collect(), order).unwrap()
            };
            refused(&[&begun], &all);
            refused(&[&sealed], &only(AlarmKind::Corrupt));
            // Before etcd 3.6 the last NOSPACE takes what refuses writes along.
            refused(&[&begun, &space], &all);
            refused(&[&sealed, &space], &only(AlarmKind::NoSpace));
            assert_eq!(
                disarms(&[&begun, &sealed, &corrupt], &all),
                std::slice::from_ref(&corrupt)
            );
            assert_eq!(
                disarms(&[&space, &corrupt], &only(AlarmKind::NoSpace)),
                std::slice::from_ref(&space)
            );
            assert_eq!(disarms(&[&begun], &only(AlarmKind::NoSpace)), []);
        }
    }

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
