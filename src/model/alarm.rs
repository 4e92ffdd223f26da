//! etcd's alarms. While one is raised, no member accepts writes. Source: `AlarmType` in etcd's
//! `api/etcdserverpb/rpc.proto`, <https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota>.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{MemberId, NodeName};

/// The kind of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AlarmKind {
    /// The database of the member has reached its quota.
    NoSpace,
    /// The data of the member differs from the others'.
    Corrupt,
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        })
    }
}

impl FromStr for AlarmKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::NoSpace, Self::Corrupt];
        let found = known
            .into_iter()
            .find(|kind| text.eq_ignore_ascii_case(&kind.to_string()));
        found.ok_or_else(|| format!("{text:?} is not an alarm of etcd; expected NOSPACE or CORRUPT"))
    }
}

/// An alarm that a member has raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The member that raised it.
    pub member_id: MemberId,
    /// Its node; `None` if no agent has reported this member.
    #[serde(default)]
    pub node: Option<NodeName>,
    /// The kind.
    pub alarm: AlarmKind,
}

impl Alarm {
    /// The name of its node, for messages.
    pub fn node_name(&self) -> &str {
        self.node.as_ref().map_or("an unknown node", NodeName::as_str)
    }
}

/// `POST /v1/alarms/disarm`: which alarms to disarm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisarmOrder {
    /// Only alarms of this kind.
    #[serde(default)]
    pub alarm: Option<AlarmKind>,
    /// Only alarms of this node's member.
    #[serde(default)]
    pub node: Option<NodeName>,
    /// Disarm even if the cause does not seem to be gone.
    #[serde(default)]
    pub force: bool,
}

impl DisarmOrder {
    /// True for an alarm that the order means.
    pub fn means(&self, alarm: &Alarm) -> bool {
        let kind = self.alarm.is_none_or(|kind| kind == alarm.alarm);
        kind && (self.node.is_none() || self.node == alarm.node)
    }
}

/// The answer to `POST /v1/alarms/disarm`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisarmView {
    /// The alarms that were disarmed; empty if the order meant none.
    pub disarmed: Vec<Alarm>,
    /// The alarms that are raised afterwards.
    pub left: Vec<Alarm>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_written_as_etcd_writes_it() {
        for (text, kind) in [("NOSPACE", AlarmKind::NoSpace), ("corrupt", AlarmKind::Corrupt)] {
            assert_eq!(text.parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), text.to_uppercase());
        }
        let wrong = "NOROOM".parse::<AlarmKind>().unwrap_err();
        assert!(
            wrong.contains("\"NOROOM\"") && wrong.contains("NOSPACE or CORRUPT"),
            "{wrong}"
        );
    }

    #[test]
    fn an_order_means_what_it_names() {
        let name = |text: &str| NodeName::new(text).unwrap();
        let alarm = |node: &str, alarm| Alarm {
            member_id: MemberId(1),
            node: Some(name(node)),
            alarm,
        };
        let order = |alarm, node: Option<&str>| DisarmOrder {
            alarm,
            node: node.map(name),
            force: false,
        };
        let one = alarm("n1", AlarmKind::NoSpace);
        let table = [
            (order(None, None), true),
            (order(Some(AlarmKind::NoSpace), Some("n1")), true),
            (order(Some(AlarmKind::Corrupt), None), false),
            (order(None, Some("n2")), false),
        ];
        for (order, means) in table {
            assert_eq!(order.means(&one), means, "{order:?}");
        }
    }
}
