//! Whether a node may be stopped now, and what follows if one stops.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Decision, NodeName, Observation, Reason};

/// `GET /v1/ok-to-stop`: whether a node may be stopped now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopVerdict {
    /// The node.
    pub node: NodeName,
    /// True if it may be stopped. What is unknown is never a yes.
    pub ok: bool,
    /// Why it must not be stopped, one for each cause; empty if it may.
    pub reasons: Vec<Reason>,
    /// What to know before the node is stopped; none of it forbids the stop.
    pub notes: Vec<Reason>,
    /// The voters while the node is down; `None` if the members are unknown.
    pub left: Option<VotersLeft>,
}

/// Whether `etcd.service` may stop now, when something other than the agent stops it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// True if it may.
    pub go: bool,
    /// Why it may, or what it waits for.
    pub text: String,
}

impl Leave {
    /// It may stop.
    pub fn go(why: impl Into<String>) -> Self {
        Self {
            go: true,
            text: why.into(),
        }
    }

    /// It waits.
    pub fn wait(what_for: impl Into<String>) -> Self {
        Self {
            go: false,
            text: what_for.into(),
        }
    }
}

/// The voters after one node has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersLeft {
    /// All voters of the member list, the stopped one included.
    pub voters: usize,
    /// How many of them are healthy then.
    pub healthy: usize,
    /// How many healthy voters etcd needs.
    pub quorum: usize,
    /// Each voter that is healthy then, by node name, and what its loss would mean.
    pub further_faults: Vec<FurtherFault>,
}

impl VotersLeft {
    /// True while the healthy voters are a quorum.
    pub fn has_quorum(&self) -> bool {
        self.healthy >= self.quorum
    }
}

/// The loss of one more voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherFault {
    /// The voter's node.
    pub node: NodeName,
    /// True if the voters that are left are still a quorum.
    pub tolerated: bool,
}

/// A fault that `plan --after` assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The host goes down and comes back before `cluster.grace` is over: agent and etcd do not answer.
    Reboot,
    /// An operator stops `etcd.service`; the agent answers.
    Stop,
    /// The host does not come back: agent and etcd have not answered for `cluster.grace`.
    Lose,
}

/// What `plan --after` assumes: a fault of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// The fault.
    pub fault: Fault,
    /// The node.
    pub node: NodeName,
}

impl fmt::Display for Hypothesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.fault {
            Fault::Reboot => "reboot",
            Fault::Stop => "stop",
            Fault::Lose => "lose",
        };
        write!(f, "{verb} {}", self.node)
    }
}

/// A text that is no [`Hypothesis`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}{why}; expected 'reboot NODE', 'stop NODE' or 'lose NODE'")]
pub struct HypothesisError {
    found: String,
    why: String,
}

impl FromStr for Hypothesis {
    type Err = HypothesisError;

    fn from_str(text: &str) -> Result<Self, HypothesisError> {
        let error = |why: String| HypothesisError {
            found: text.to_owned(),
            why,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [verb, node] = words.as_slice() else {
            return Err(error(String::new()));
        };
        let fault = match *verb {
            "reboot" => Fault::Reboot,
            "stop" => Fault::Stop,
            "lose" => Fault::Lose,
            _ => return Err(error(String::new())),
        };
        let node = NodeName::new(*node).map_err(|wrong| error(format!(" ({wrong})")))?;
        Ok(Self { fault, node })
    }
}

/// The output of `plan --after`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypothesisView {
    /// What is assumed.
    pub after: Hypothesis,
    /// The observation after that, as the coordinator would have it.
    pub observation: Observation,
    /// The node that would be the coordinator; `None` if no quorum is left.
    pub coordinator: Option<NodeName>,
    /// What it would decide.
    pub decision: Decision,
    /// The voters; `None` if the members are unknown.
    pub left: Option<VotersLeft>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_verb_and_a_node() {
        for text in ["reboot n1", "stop n2", "lose web-3.example.org"] {
            assert_eq!(text.parse::<Hypothesis>().unwrap().to_string(), text);
        }
        assert_eq!(
            " reboot   n1 ".parse::<Hypothesis>().unwrap().to_string(),
            "reboot n1"
        );
        for text in [
            "",
            "reboot",
            "n1",
            "Reboot n1",
            "eat n1",
            "reboot n1 n2",
            "stop n/1",
        ] {
            let said = text.parse::<Hypothesis>().unwrap_err().to_string();
            assert!(
                said.contains(&format!("{text:?}")) && said.contains("'reboot NODE'"),
                "{said}"
            );
        }
    }
}
