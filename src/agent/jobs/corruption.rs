//! Compares the data of all voters, as a background job: etcd hashes it at one revision (`HashKV`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::spawn;
use crate::agent::state::jobs::JobKind;
use crate::model::{EtcdVersion, HashCheck, Member, MemberHash, MemberList, Revision};
use crate::plan;
use crate::ports::{Etcd, PortError, PortResult};
use crate::telemetry::message_ids;

/// How long a member may take to reach the revision.
const REACHES: Duration = Duration::from_secs(10);
/// How often it is asked.
const POLL: Duration = Duration::from_millis(100);
/// The pause before a difference is looked at again.
const COMPARE_AGAIN: Duration = Duration::from_secs(1);
/// How often the data is compared at most until no compaction comes between the answers.
const TRIES: usize = 3;
/// How many characters of an error are reported for one member.
const LONGEST: usize = 200;

/// A comparison of the voters' data.
struct Comparison {
    check: HashCheck,
    /// The voters whose data was not hashed, each with the reason.
    missed: Vec<String>,
}

impl Comparison {
    /// What it shows. With the hashes of some voters it can show that they differ, but not that all are the same.
    ///
    /// # Errors
    /// Retryable, and names the voters whose hash it lacks.
    fn outcome(self) -> PortResult<HashCheck> {
        if self.missed.is_empty() || !self.check.found.is_none() {
            return Ok(self.check);
        }
        Err(PortError::Retryable(format!(
            "no hash of {}",
            self.missed.join(", ")
        )))
    }
}

/// A voter without a hash, and why.
fn missed(voter: &str, why: &PortError) -> String {
    let why: String = why.to_string().chars().take(LONGEST).collect();
    format!("{voter} ({why})")
}

/// Starts to compare the data of the voters in this list. A difference counts only if a second comparison at a later
/// revision finds it too. If none is found, the comparison is finished only with the hashes of all voters.
pub(crate) fn check_hashes(agent: &Agent, list: MemberList) {
    let worker = agent.clone();
    let work = async move {
        let first = compare(&worker, &list).await?;
        if first.check.found.is_none() {
            return first.outcome();
        }
        tokio::time::sleep(COMPARE_AGAIN).await;
        let mut second = compare(&worker, &list).await?;
        second.check.found = first.check.found.and(&second.check.found);
        second.outcome()
    };
    spawn(agent, JobKind::HashCheck, work, |agent, result| match result {
        Ok(check) => ended(agent, check),
        Err(error) => tracing::warn!("the members' data could not be compared: {error}"),
    });
}

fn ended(agent: &Agent, check: HashCheck) {
    let (revision, compared) = (check.revision, check.compared);
    if check.found.is_none() {
        tracing::info!("the data of {compared} voters is the same at revision {revision}");
    }
    for id in check.found.corrupt.iter().chain(&check.found.unclear) {
        tracing::error!(
            message_id = message_ids::DATA_DIFFERS,
            etcd_agent.member_id = %id,
            "the data of member {id} differs from the others' at revision {revision} (HashKV)"
        );
    }
    agent.shared.with(|inner| inner.jobs.note_hash_check(check));
}

async fn compare(agent: &Agent, list: &MemberList) -> PortResult<Comparison> {
    let mut tries = 1;
    loop {
        let revision = agent.ports.etcd.status().await?.revision;
        let mut hashes = BTreeMap::new();
        let mut without = Vec::new();
        for voter in list.voters() {
            match hash(agent, voter, revision).await {
                Ok(hash) => drop(hashes.insert(voter.id, hash)),
                Err(error) => {
                    tracing::info!("the data of member {} could not be hashed: {error}", voter.id);
                    let node = agent.spec.node_of(voter).map(ToString::to_string);
                    let name = node.unwrap_or_else(|| format!("member {}", voter.id));
                    without.push(missed(&name, &error));
                }
            }
        }
        let mut compacted = hashes.values().map(|member| member.hash.compact_revision);
        let first = compacted.next();
        if compacted.any(|other| Some(other) != first) && tries < TRIES {
            tries += 1;
            continue;
        }
        let check = HashCheck {
            cluster_id: list.cluster_id,
            revision,
            at: agent.ports.clock.now(),
            compared: hashes.len(),
            found: plan::compare_hashes(&list.voter_ids(), &hashes),
        };
        return Ok(Comparison {
            check,
            missed: without,
        });
    }
}

/// Has a member's etcd hash its data, once it has reached this revision.
async fn hash(agent: &Agent, member: &Member, revision: Revision) -> PortResult<MemberHash> {
    let etcd = etcd_of(agent, member)
        .ok_or_else(|| PortError::Permanent("its node is not in cluster.nodes".to_owned()))?;
    let begun = agent.ports.clock.steady();
    let status = loop {
        let status = etcd.status().await?;
        if status.member_id != member.id {
            let text = format!("member {} answers in its place", status.member_id);
            return Err(PortError::Permanent(text));
        }
        if status.revision >= revision {
            break status;
        }
        if agent.ports.clock.steady().since(begun) >= REACHES {
            return Err(PortError::Retryable(format!(
                "it is at revision {}",
                status.revision
            )));
        }
        tokio::time::sleep(POLL).await;
    };
    let version = EtcdVersion::reported(&status.version)
        .ok_or_else(|| PortError::Permanent(format!("its version {} is not understood", status.version)))?;
    let hash = etcd.hash_data(revision).await?;
    Ok(MemberHash { hash, version })
}

/// The etcd of a member: this node's own, or another node's; `None` if it cannot be asked from here.
pub(crate) fn etcd_of(agent: &Agent, member: &Member) -> Option<Arc<dyn Etcd>> {
    let node = agent.spec.node_of(member)?;
    if *node == agent.spec.node {
        return Some(agent.ports.etcd.clone());
    }
    agent.ports.etcd.of(node)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{ClusterId, Differences, MemberId, UnixMs};

    /// A comparison of three voters.
    fn comparison(missed: &[&str], found: Differences) -> Comparison {
        let check = HashCheck {
            cluster_id: ClusterId(1),
            revision: Revision(5),
            at: UnixMs(1),
            compared: 3 - missed.len(),
            found,
        };
        let refused = PortError::Permanent("etcd says: permission denied".to_owned());
        Comparison {
            check,
            missed: missed
                .iter()
                .map(|voter| super::missed(voter, &refused))
                .collect(),
        }
    }

    /// With nobody's hash it would find no difference either.
    #[test]
    fn voters_are_the_same_only_if_all_were_hashed() {
        let none = Differences::default;
        assert!(comparison(&[], none()).outcome().is_ok());
        for missed in [["n3"].as_slice(), &["n1", "n2", "n3"]] {
            let error = comparison(missed, none()).outcome().unwrap_err();
            assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
            let text = error.to_string();
            for voter in missed {
                let expected = format!("{voter} (etcd says: permission denied)");
                assert!(text.contains(&expected), "{text}");
            }
        }
    }

    #[test]
    fn voters_that_differ_are_reported_although_another_one_was_not_hashed() {
        let two = [MemberId(1), MemberId(2)];
        let found = Differences {
            unclear: two.into_iter().collect(),
            ..Differences::default()
        };
        let check = comparison(&["n3"], found.clone()).outcome().unwrap();
        assert_eq!((check.compared, check.found), (2, found));
    }

    #[test]
    fn a_long_error_of_one_member_is_cut() {
        let text = missed("n1", &PortError::Retryable("x".repeat(10_000)));
        assert_eq!(text.len(), "n1 ()".len() + LONGEST);
    }
}
