//! Begins and ends the quarantine of a move. Both are judged from looks that begin after the order.

use std::time::Duration;

use crate::agent::Agent;
use crate::agent::api::refused::refused;
use crate::agent::api::{fresh, v2_keys};
use crate::agent::execute::fence::recorded;
use crate::agent::jobs::corruption::etcd_of;
use crate::model::{
    AlarmKind, CHECKS_USERS_IN_QUARANTINE, ClusterId, EtcdVersion, Fact, Fingerprint, Genesis,
    NOSPACE_LIFTS_QUARANTINE, NodeName, Observation, Origin, QUARANTINE, QuarantineOrder, QuarantineView,
    is_quarantine,
};
use crate::plan;
use crate::ports::{Etcd, PortResult};

/// How long an order to end the quarantine waits for the store. The command waits 30 s, and the look at all nodes
/// takes up to 7 s of them.
const ASK_STORE: Duration = Duration::from_secs(15);
/// The same if the order does not depend on the answer.
const ASK_BRIEFLY: Duration = Duration::from_secs(5);

/// Carries out the order.
///
/// # Errors
/// Permanent if it is refused; otherwise of etcd, of the store, or if no look ends in time.
pub(crate) async fn order(agent: &Agent, order: &QuarantineOrder) -> PortResult<QuarantineView> {
    match order {
        QuarantineOrder::Begin {
            to,
            dry_run,
            include_v2,
        } => begin(agent, *to, *dry_run, *include_v2).await,
        QuarantineOrder::End { force } => end(agent, *force).await,
    }
}

async fn begin(
    agent: &Agent,
    to: EtcdVersion,
    dry_run: bool,
    include_v2: bool,
) -> PortResult<QuarantineView> {
    let seen = fresh::observation(agent).await?;
    if let Some(why) = plan::move_objection(&seen, to) {
        return Err(refused(why));
    }
    if let Some((node, running)) = unsafe_with_users(&seen)
        && agent.ports.etcd.auth_enabled().await?
    {
        return Err(refused(unsafe_move(&node, &running)));
    }
    let has_v2 = v2_keys::may_be_there(&seen);
    let keys = if has_v2 {
        v2_keys::find(agent, include_v2).await?
    } else {
        Vec::new()
    };
    let mut view = QuarantineView {
        v2_keys: keys.len(),
        ..QuarantineView::default()
    };
    let (member, alarm) = QUARANTINE;
    let raised = is_raised(agent).await?;
    if !raised {
        v2_keys::carry(agent, &keys, dry_run).await?;
    }
    if dry_run {
        return Ok(view);
    }
    if !raised {
        agent.ports.etcd.raise(member, alarm).await?;
        tracing::warn!(
            "an operator moves the cluster to etcd {to}: it is in quarantine, and etcd refuses writes"
        );
        agent.shared.wake.notify_one();
        view.changed = true;
    }
    // The quarantine stays if one of these fails: another node may have begun to use it.
    if has_v2 {
        // The alarm refuses no write of the v2 API.
        v2_keys::compare(agent, include_v2).await?;
    }
    if !is_raised(agent).await? {
        return Err(refused("somebody ended the quarantine meanwhile: move again"));
    }
    Ok(view)
}

/// True if the quarantine has begun.
///
/// # Errors
/// Permanent while NOSPACE is raised; otherwise of etcd.
async fn is_raised(agent: &Agent) -> PortResult<bool> {
    let alarms = agent.ports.etcd.alarms().await?;
    if alarms.iter().any(|(_, alarm)| *alarm == AlarmKind::NoSpace) {
        return Err(refused(NOSPACE_LIFTS_QUARANTINE));
    }
    Ok(alarms.contains(&QUARANTINE))
}

/// A node whose etcd does not check users while an alarm is raised, and its version.
fn unsafe_with_users(seen: &Observation) -> Option<(NodeName, String)> {
    let peers = seen.peers.values().filter_map(Fact::known);
    let mut statuses = peers.chain([&seen.me]);
    statuses.find_map(|status| {
        let version = &status.etcd.known()?.version;
        let checks = EtcdVersion::reported(version).is_some_and(|v| v.series() >= CHECKS_USERS_IN_QUARANTINE);
        (!checks).then(|| (status.node.clone(), version.clone()))
    })
}

/// Why a cluster with this etcd is not moved while authentication is on. With keys of the v2 API an upgrade to 3.6 is
/// refused, too.
fn unsafe_move(node: &NodeName, running: &str) -> String {
    format!(
        "authentication is on, and etcd {running} on {node} would let anybody administer users in quarantine: \
         `etcdctl auth disable`, move, `etcdctl auth enable` (users and roles are kept, and nobody is checked \
         meanwhile); or, without keys of etcd's v2 API, upgrade to {}.{} first",
        CHECKS_USERS_IN_QUARANTINE.0, CHECKS_USERS_IN_QUARANTINE.1
    )
}

async fn end(agent: &Agent, force: bool) -> PortResult<QuarantineView> {
    let etcd = &agent.ports.etcd;
    let mut view = QuarantineView::default();
    // Before the look: the seal of a node that begins later to open an epoch stays.
    let mut raised = etcd.alarms().await?;
    raised.retain(|alarm| is_quarantine(*alarm));
    if raised.is_empty() {
        return Ok(view);
    }
    let serves = etcd.status().await?.cluster_id;
    let genesis = agent.shared.elector().chosen;
    let genesis = genesis.filter(|genesis| genesis.cluster_id == serves);
    if let Some(genesis) = genesis.filter(|genesis| genesis.etcd.is_some_and(|etcd| etcd.continues)) {
        view.compared = match compare(agent, &genesis).await {
            Ok(text) => text,
            Err(error) if force => format!("not compared, by the operator's word: {error}"),
            Err(error) => return Err(error),
        };
    }
    let seen = fresh::observation(agent).await?;
    if let Some(why) = plan::end_objection(&seen, serves, force) {
        return Err(refused(why));
    }
    check_store(agent, &seen, serves).await?;
    for (member, alarm) in raised {
        etcd.disarm(member, alarm).await?;
    }
    tracing::warn!(
        "an operator ended the quarantine: etcd accepts writes. {}",
        view.compared
    );
    agent.shared.wake.notify_one();
    view.changed = true;
    Ok(view)
}

/// Checks that the shared store records no epoch that replaces the cluster `serves`. Its proposer may have
/// died before any node has learned the epoch, and the electors that accepted it may be silent.
///
/// # Errors
/// Permanent if the store records one; of the store if it does not answer while a node is silent.
async fn check_store(agent: &Agent, seen: &Observation, serves: ClusterId) -> PortResult<()> {
    if !agent.spec.store_shared {
        return Ok(());
    }
    let open = agent.shared.elector().open_epoch();
    let replaces = |genesis: &Genesis| {
        genesis.cluster_id != serves && genesis.epoch > open && agent.believes(genesis, open)
    };
    let mut nodes = agent.spec.nodes.keys().filter(|node| **node != agent.spec.node);
    let answers = |node: &NodeName| seen.peers.get(node).and_then(Fact::known).is_some();
    let all_answer = nodes.all(answers);
    let within = if all_answer { ASK_BRIEFLY } else { ASK_STORE };
    match recorded(agent, within).await {
        Ok(Some(genesis)) if replaces(&genesis) => Err(refused(format_args!(
            "the store records epoch {}, which replaces this cluster, and what is written before it opens would be lost: \
             wait until it opens, or `etcd-agent move --to VERSION`",
            genesis.epoch
        ))),
        Ok(_) => Ok(()),
        // An epoch is recorded after a majority has accepted it, and all electors report that they have not.
        Err(_) if all_answer => Ok(()),
        Err(error) => Err(error),
    }
}

/// Compares what each voter of a moved epoch serves with what was backed up. Returns the result in one line.
///
/// # Errors
/// Permanent if a voter serves other data or another version of etcd; otherwise of an etcd or of the store.
async fn compare(agent: &Agent, genesis: &Genesis) -> PortResult<String> {
    let (Origin::Backup(backup), Some(with)) = (&genesis.origin, genesis.etcd) else {
        return Ok(String::new());
    };
    let store = agent.ports.store.as_ref();
    let store = store.ok_or_else(|| refused("no store is configured that has the backup"))?;
    let backups = &agent.ports.backups;
    let content = backups
        .content(store.as_ref(), &agent.spec.cluster, backup)
        .await?;
    // Something was written since: this is the quarantine of a further move.
    if agent.ports.etcd.status().await?.revision > content.revision {
        return Ok(String::new());
    }
    let expected = content.fingerprint;
    let expected =
        expected.ok_or_else(|| refused(format_args!("{backup} has no fingerprint to compare with")))?;
    let list = agent.ports.etcd.members(true).await?;
    let mut voters = 0;
    let mut hashed = true;
    for member in list.voters() {
        let node = agent.spec.node_of(member);
        let node = node.ok_or_else(|| refused(format_args!("member {} is on no known node", member.id)))?;
        let etcd = etcd_of(agent, member);
        let etcd = etcd.ok_or_else(|| refused(format_args!("the etcd of {node} cannot be asked")))?;
        hashed &= compare_one(etcd.as_ref(), node, with.version, expected).await?;
        voters += 1;
    }
    let what = if hashed {
        "all revisions of all keys (HashKV)"
    } else {
        "the number of keys"
    };
    Ok(format!("{what} on {voters} voters equal {backup}"))
}

/// True if the hashes could be compared, too.
async fn compare_one(
    etcd: &dyn Etcd,
    node: &NodeName,
    version: EtcdVersion,
    expected: Fingerprint,
) -> PortResult<bool> {
    let status = etcd.status().await?;
    if EtcdVersion::reported(&status.version) != Some(version) {
        return Err(refused(format_args!(
            "{node} runs etcd {}, expected {version}",
            status.version
        )));
    }
    let found = etcd.fingerprint(expected.revision, true).await?;
    let hashes = found.hash.zip(expected.hash);
    let counts = found.keys.zip(expected.keys);
    if hashes.is_none() && counts.is_none() {
        return Err(refused(format_args!(
            "{node} reports neither the number of keys nor a hash"
        )));
    }
    if hashes.is_some_and(|(one, other)| one != other) || counts.is_some_and(|(one, other)| one != other) {
        return Err(refused(format_args!(
            "{node} serves other data than was backed up: found {found:?}, expected {expected:?}. `etcd-agent restore` \
             with `--etcd-version` goes back"
        )));
    }
    Ok(hashes.is_some())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::without_v2;

    /// With keys of the v2 API an upgrade to 3.6 says to move.
    #[test]
    fn a_move_that_users_forbid_and_an_upgrade_that_keys_of_v2_forbid_have_a_way_out() {
        let why = unsafe_move(&NodeName::new("n1").unwrap(), "3.5.35");
        assert!(
            why.contains("`etcdctl auth disable`, move, `etcdctl auth enable`")
                && why.contains("without keys of etcd's v2 API, upgrade to 3.6 first"),
            "{why}"
        );
        let upgrade = without_v2("3.6.16".parse().unwrap(), "etcd's v2 API holds 1 key");
        assert!(
            upgrade.contains("`etcd-agent move --to 3.6.16 --include-v2`"),
            "{upgrade}"
        );
    }
}
