//! Compares the data of all voters, as a background job: etcd hashes it at one revision (`HashKV`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::spawn;
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

/// Starts to compare the data of the voters in this list. A difference counts only if a second comparison at a later
/// revision finds it too.
pub(crate) fn check_hashes(agent: &Agent, list: MemberList) {
    let worker = agent.clone();
    let work = async move {
        let first = compare(&worker, &list).await?;
        if first.found.is_none() {
            return Ok(first);
        }
        tokio::time::sleep(COMPARE_AGAIN).await;
        let mut second = compare(&worker, &list).await?;
        second.found = first.found.and(&second.found);
        Ok(second)
    };
    spawn(
        agent,
        |inner| &mut inner.jobs.hash_check,
        work,
        |agent, result| match result {
            Ok(check) => ended(agent, check),
            Err(error) => tracing::warn!("the members' data could not be compared: {error}"),
        },
    );
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
    agent
        .shared
        .with(|inner| inner.jobs.last_hash_check = Some(check));
}

async fn compare(agent: &Agent, list: &MemberList) -> PortResult<HashCheck> {
    let mut tries = 1;
    loop {
        let revision = agent.ports.etcd.status().await?.revision;
        let mut hashes = BTreeMap::new();
        for voter in list.voters() {
            match hash(agent, voter, revision).await {
                Ok(hash) => drop(hashes.insert(voter.id, hash)),
                Err(error) => {
                    tracing::info!("the data of member {} could not be hashed: {error}", voter.id);
                }
            }
        }
        let mut compacted = hashes.values().map(|member| member.hash.compact_revision);
        let first = compacted.next();
        if compacted.any(|other| Some(other) != first) && tries < TRIES {
            tries += 1;
            continue;
        }
        return Ok(HashCheck {
            cluster_id: list.cluster_id,
            revision,
            at: agent.ports.clock.now(),
            compared: hashes.len(),
            found: plan::compare_hashes(&list.voter_ids(), &hashes),
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
    let hash = etcd.fingerprint(revision, true).await?.hash;
    let hash = hash.ok_or_else(|| PortError::Permanent("etcd did not tell its hash".to_owned()))?;
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
