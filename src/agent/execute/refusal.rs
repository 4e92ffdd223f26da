//! Whether the quarantine holds. In etcd 3.4 and 3.5 it may not, although its alarm is listed
//! (`src/model/quarantine.rs`), so each voter is asked for a change, which it has to refuse.
//!
//! Each member decides by its own state, and one that was restarted refuses again. So the answer of one
//! member says nothing about another one: a majority has to refuse, and none may accept. A write that a
//! silent member would accept is on no majority. A write that a majority accepted before is in the revision
//! of one that answers.

use futures::future::join_all;

use crate::agent::Agent;
use crate::model::{Member, Revision};
use crate::ports::{PortError, PortResult};

/// What a voter answers: whether it refuses changes, and its revision after that. With its name.
type Answer = (String, PortResult<(bool, Revision)>);

/// Checks that the voters refuse changes and hold the revision `held`. Returns why they do not: it stays so.
///
/// # Errors
/// Retryable if no majority answers.
pub(crate) async fn objection(agent: &Agent, held: Revision) -> PortResult<Option<String>> {
    let list = agent.ports.etcd.members(true).await?;
    let absent = format!("\0etcd-agent/quarantine/{:016x}", agent.ports.clock.random());
    let asked = list.voters().map(|member| ask(agent, member, &absent));
    judge(join_all(asked).await, held)
}

async fn ask(agent: &Agent, member: &Member, absent: &str) -> Answer {
    let node = agent.spec.node_of(member);
    let name = node.map_or_else(|| format!("member {}", member.id), ToString::to_string);
    let own = &agent.ports.etcd;
    let etcd = node.and_then(|node| {
        if *node == agent.spec.node {
            Some(own.clone())
        } else {
            own.of(node)
        }
    });
    let Some(etcd) = etcd else {
        let why = PortError::Retryable("it cannot be asked".to_owned());
        return (name, Err(why));
    };
    let answer = async {
        let refuses = etcd.refuses_changes(absent).await?;
        Ok((refuses, etcd.status().await?.revision))
    };
    (name, answer.await)
}

fn judge(answers: Vec<Answer>, held: Revision) -> PortResult<Option<String>> {
    let voters = answers.len();
    let mut refusing = 0;
    let mut silent = Vec::new();
    for (node, answer) in answers {
        match answer {
            Ok((false, _)) => {
                return Ok(Some(format!(
                    "etcd on {node} accepts writes, although the cluster is in quarantine: the alarm NOSPACE has lifted it, as \
                     in etcd 3.4 and 3.5. `etcd-agent move --cancel`, free space, and move again"
                )));
            }
            Ok((true, revision)) if revision != held => {
                return Ok(Some(format!(
                    "etcd on {node} is at revision {revision}, and the backup holds revision {held}: take another backup"
                )));
            }
            Ok((true, _)) => refusing += 1,
            Err(error) => silent.push(format!("{node}: {error}")),
        }
    }
    if refusing * 2 > voters {
        return Ok(None);
    }
    Err(PortError::Retryable(format!(
        "not done: {refusing} of {voters} members say that they refuse writes, a majority is needed: {}",
        silent.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_2_a_quarantine_holds_only_where_a_majority_refuses_and_none_accepts() {
        let held = Revision(7);
        let (refuses, accepts, behind) = (Some((true, 7)), Some((false, 7)), Some((true, 8)));
        let table = [
            ("one", vec![refuses], "holds"),
            ("two of three", vec![refuses, None, refuses], "holds"),
            ("one of three", vec![refuses, None, None], "a majority is needed"),
            ("one of two", vec![None, refuses], "a majority is needed"),
            ("nobody", vec![], "a majority is needed"),
            (
                "one accepts",
                vec![refuses, refuses, accepts],
                "n3 accepts writes",
            ),
            (
                "another has accepted",
                vec![refuses, behind, refuses],
                "n2 is at revision 8",
            ),
        ];
        for (what, answers, expected) in table {
            let named = answers.into_iter().enumerate().map(|(index, answer)| {
                let silent = || PortError::Retryable("no answer".to_owned());
                let answer = answer.map(|(refuses, at)| (refuses, Revision(at)));
                (format!("n{}", index + 1), answer.ok_or_else(silent))
            });
            let found = match judge(named.collect(), held) {
                Ok(None) => "holds".to_owned(),
                Ok(Some(why)) => why,
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{what}: {found}");
        }
    }
}
