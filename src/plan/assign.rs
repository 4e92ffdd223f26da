//! What this node's etcd is to be: founder, joiner, or nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::Context;
use super::data::describe;
use super::electors;
use crate::model::{
    Action, ActiveState, Assignment, DataState, EtcdStatus, Fact, Generation, Genesis, InitialState, Join,
    Member, MemberId, MemberList, NodeName, NodeStatus, Origin, RaftTerm, Role,
};

/// Gives this node its assignment when the newest epoch wants something of it that it has not.
pub(super) fn assign(cx: &mut Context<'_>) -> Option<Action> {
    let genesis = cx.genesis()?;
    let current = cx.obs.assignment.as_ref().filter(|a| a.epoch == genesis.epoch);
    let wanted = match current {
        None if awaits_stop(cx, genesis) => return None,
        None => founder(cx, genesis)
            .or_else(|| own_member(cx, genesis))
            .or_else(|| joiner(cx, genesis, &invitations(cx, genesis))),
        Some(assignment) => refresh(cx, assignment).or_else(|| replaced(cx, genesis, assignment)),
    };
    let Some(wanted) = wanted else {
        if current.is_none() {
            not_assigned(cx, genesis);
        }
        return None;
    };
    Some(Action::Assign {
        assignment: Box::new(wanted),
    })
}

/// An etcd that may be of an older epoch runs: nothing newer is assigned beside it. What is assigned names what etcd is
/// stopped, started and inspected for, and a stop can fail.
fn awaits_stop(cx: &mut Context<'_>, genesis: &Genesis) -> bool {
    let down = match &cx.obs.me.unit {
        Fact::Known(unit) => {
            unit.waits_to_start() || !(unit.active.is_up() || unit.active == ActiveState::Deactivating)
        }
        Fact::Absent => true,
        Fact::Unreachable(_) => false,
    };
    let serves_it = |etcd: &EtcdStatus| etcd.cluster_id == genesis.cluster_id;
    let may_be_older = cx.obs.assignment.is_some() || matches!(genesis.origin, Origin::Backup(_));
    if down || !may_be_older || cx.obs.me.etcd.known().is_some_and(serves_it) || mutant!(StopForgotten) {
        return false;
    }
    cx.because(
        "awaiting-stop",
        format!(
            "epoch {} is assigned to this node once etcd.service is known to be down",
            genesis.epoch
        ),
    );
    cx.wake_in(Duration::from_secs(1));
    true
}

fn not_assigned(cx: &mut Context<'_>, genesis: &Genesis) {
    if genesis.members.contains_key(&cx.spec.node) {
        cx.because(
            "lost-membership",
            format!("epoch {} lists this node, which has neither data nor memory of it: it waits to be added anew", genesis.epoch),
        );
    } else if let Some(text) = electors::of_others(cx, genesis) {
        cx.because("other-electorate", text);
    } else {
        cx.because("spare", spare_text(cx));
    }
}

/// What a spare waits for.
pub(super) fn spare_text(cx: &Context<'_>) -> String {
    let list = cx
        .known_peers()
        .filter_map(|(_, status)| status.members.known())
        .filter(|list| list.linearizable)
        .max_by_key(|list| list.term);
    let size = cx.spec.size;
    match list.map(|list| list.members.len()) {
        Some(there) if there >= size => {
            format!("the cluster has {there} of {size} members: this node is a spare, for when one is dead")
        }
        Some(there) => format!("the cluster has {there} of {size} members: this node waits to be added"),
        None => "this node is a spare, and no coordinator answers that could add it".to_owned(),
    }
}

fn next_generation(cx: &Context<'_>) -> Generation {
    cx.obs
        .assignment
        .as_ref()
        .map(|a| a.generation)
        .unwrap_or_default()
        .next()
}

fn base(cx: &Context<'_>, genesis: &Genesis) -> Option<Assignment> {
    Some(Assignment {
        generation: next_generation(cx),
        epoch: genesis.epoch,
        node: cx.spec.node.clone(),
        member_id: genesis.member_id(&cx.spec.node)?,
        cluster_id: genesis.cluster_id,
        token: genesis.token.clone(),
        role: Role::Founder,
        initial_state: InitialState::New,
        initial_cluster: genesis.members.clone(),
        data_dir: cx.spec.etcd.data_dir.clone(),
        listed: RaftTerm::default(),
        started: false,
        removed: false,
        restore: None,
        restored: false,
        settings_digest: cx.spec.settings_digest(),
    })
}

/// An initial voter of the genesis. `initial-cluster-state=new` only where this very memory took part in the
/// genesis and nothing was ever assigned: then it cannot have started before. Anybody else would come back as the
/// same voter with no memory of what it acknowledged.
fn founder(cx: &mut Context<'_>, genesis: &Genesis) -> Option<Assignment> {
    let mut wanted = base(cx, genesis)?;
    if let Fact::Known(DataState::Present {
        cluster_id,
        member_id,
    }) = cx.obs.me.data
    {
        if wanted.is_of(cluster_id, member_id) {
            cx.because(
                "own-data",
                "the data directory is this member's own: it is taken up again",
            );
            wanted.initial_state = InitialState::Existing;
            wanted.started = true;
            return Some(wanted);
        }
        if let Origin::Member(node) = &genesis.origin
            && *node == cx.spec.node
            && cluster_id == genesis.cluster_id
        {
            wanted.member_id = member_id;
            wanted.initial_state = InitialState::Existing;
            wanted.started = true;
            return Some(wanted);
        }
    }
    if !took_part(cx, genesis) && !mutant!(FounderForgets) {
        return None;
    }
    if let Origin::Backup(backup) = &genesis.origin {
        wanted.restore = Some(backup.clone());
        wanted.initial_state = InitialState::Existing;
        cx.because(
            "founder",
            format!("epoch {} is restored from {backup} here too", genesis.epoch),
        );
        return Some(wanted);
    }
    match &cx.obs.me.data {
        Fact::Known(DataState::Missing) => {
            cx.because(
                "founder",
                format!("this node is an initial member of epoch {}", genesis.epoch),
            );
            Some(wanted)
        }
        Fact::Known(other) => {
            cx.halt(
                "data-in-the-way",
                format!(
                    "a new member needs an empty data directory, found {}",
                    describe(other)
                ),
            );
            None
        }
        Fact::Absent | Fact::Unreachable(_) => None,
    }
}

/// True where this very memory took part in the genesis. The electorate is no part of a genesis' value: a node that lies can
/// name a new memory in it (rule 10). A memory that took part has the genesis confirmed.
fn took_part(cx: &Context<'_>, genesis: &Genesis) -> bool {
    let confirmed = !cx.obs.elector.hearsay || mutant!(BelievesElectorates);
    confirmed && genesis.electorate.get(&cx.spec.node) == Some(&cx.obs.me.incarnation)
}

/// A member that joined later and whose agent has lost its memory, but not the data: the cluster still lists it.
fn own_member(cx: &mut Context<'_>, genesis: &Genesis) -> Option<Assignment> {
    let Fact::Known(DataState::Present {
        cluster_id,
        member_id,
    }) = cx.obs.me.data
    else {
        return None;
    };
    if cluster_id != genesis.cluster_id {
        return None;
    }
    let lists = linearizable_lists(cx, genesis);
    let (initial_cluster, listed) = if lists.is_empty() {
        // No quorum to ask, perhaps for want of this very member. Its own disk is what raft relies on: should the
        // member have been removed meanwhile, the others do not let it in, and it is put away once they say so.
        let url = cx.spec.peer_url(&cx.spec.node)?;
        let mut known = genesis.members.clone();
        known.insert(cx.spec.node.clone(), vec![url]);
        (known, RaftTerm::default())
    } else {
        let (_, list) = lists.iter().find(|(_, list)| list.get(member_id).is_some())?;
        (named(cx, list)?, list.term)
    };
    cx.because(
        "own-data",
        "the data directory is this member's own: it is taken up again",
    );
    Some(Assignment {
        started: true,
        ..joined(cx, genesis, (member_id, listed), initial_cluster)
    })
}

/// A node that the coordinator has added as a learner, and that has not started yet. Of several invitations the one that most
/// peers know of counts.
fn joiner(cx: &mut Context<'_>, genesis: &Genesis, invitations: &[Invitation<'_>]) -> Option<Assignment> {
    let most = |invitation: &&Invitation<'_>| witnesses(cx, genesis, invitation);
    let invitation = invitations.iter().max_by_key(most)?;
    let Invitation { by, list, member } = *invitation;
    if !is_believed(cx, genesis, invitation) {
        let text = format!(
            "{by} has added this node as member {}, and no second node says so: this agent does not know whether its node had a \
             member before, which etcd would come back as without its data",
            member.id
        );
        cx.because("invitation-hearsay", text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    let initial_cluster = named(cx, list)?;
    cx.because(
        "joiner",
        format!("the coordinator has added this node as learner {}", member.id),
    );
    Some(joined(cx, genesis, (member.id, list.term), initial_cluster))
}

/// How many peers list the unstarted member that an invitation names. IDs are never used twice, so a list that was not read
/// through quorum tells as much.
fn witnesses(cx: &Context<'_>, genesis: &Genesis, invitation: &Invitation<'_>) -> usize {
    let member = invitation.member;
    let has_it = |list: &MemberList| {
        list.cluster_id == genesis.cluster_id
            && list
                .get(member.id)
                .is_some_and(|m| m.name.is_empty() && m.peer_urls == member.peer_urls)
    };
    let lists = cx.known_peers().filter_map(|(_, status)| status.members.known());
    lists.filter(|list| has_it(list)).count()
}

/// Whether this node may start as the member that an invitation names. With an empty data directory etcd takes its ID from its
/// peers, by its peer URL. Where they still have the member that this node had before, it comes back as that one, without the
/// writes that it has acknowledged. So one peer's word is enough only for a node that cannot have had a member (rule 10), or
/// from the only voter, when every other node answers and has no member.
fn is_believed(cx: &Context<'_>, genesis: &Genesis, invitation: &Invitation<'_>) -> bool {
    let had_none = match cx.obs.assignment.as_ref().filter(|a| a.epoch == genesis.epoch) {
        Some(assignment) => assignment.removed,
        None => took_part(cx, genesis),
    };
    let Invitation { by, list, member } = invitation;
    let out = &cx.obs.me.steering.directives.out;
    let has_none = |node: &NodeName| {
        let assigned = |status: &NodeStatus| status.assignment.as_ref().map(|a| a.cluster_id);
        cx.status_of(node)
            .is_some_and(|status| assigned(status) != Some(genesis.cluster_id))
    };
    let mut others = cx
        .spec
        .nodes
        .keys()
        .filter(|node| **node != cx.spec.node && node != by);
    let only_voter = list.voters().filter(|voter| voter.id != member.id).count() == 1
        && others.all(|node| out.contains(node) || has_none(node));
    had_none || only_voter || witnesses(cx, genesis, invitation) > 1 || mutant!(BelievesInvitations)
}

/// Every member of the list by its node's name, which an unstarted one does not have yet.
fn named(cx: &Context<'_>, list: &MemberList) -> Option<BTreeMap<NodeName, Vec<String>>> {
    list.members
        .iter()
        .map(|member| Some((name_of(cx, member)?, member.peer_urls.clone())))
        .collect()
}

fn joined(
    cx: &Context<'_>,
    genesis: &Genesis,
    (member_id, listed): (MemberId, RaftTerm),
    initial_cluster: BTreeMap<NodeName, Vec<String>>,
) -> Assignment {
    Assignment {
        generation: next_generation(cx),
        epoch: genesis.epoch,
        node: cx.spec.node.clone(),
        member_id,
        cluster_id: genesis.cluster_id,
        token: genesis.token.clone(),
        role: Role::Joiner,
        initial_state: InitialState::Existing,
        initial_cluster,
        data_dir: cx.spec.etcd.data_dir.clone(),
        listed,
        started: false,
        removed: false,
        restore: None,
        restored: false,
        settings_digest: cx.spec.settings_digest(),
    }
}

/// An unstarted member with this node's peer URL, in a member list that a peer has read through quorum.
pub(super) struct Invitation<'a> {
    /// The peer.
    by: &'a NodeName,
    list: &'a MemberList,
    pub(super) member: &'a Member,
}

/// What peers invite this node to be.
pub(super) fn invitations<'a>(cx: &Context<'a>, genesis: &Genesis) -> Vec<Invitation<'a>> {
    let Some(url) = cx.spec.peer_url(&cx.spec.node) else {
        return Vec::new();
    };
    // An operator who prepares the entry may also make it a voter.
    let may_enter = |m: &Member| m.is_learner || cx.spec.join == Join::Prepare;
    linearizable_lists(cx, genesis)
        .into_iter()
        .filter_map(|(by, list)| {
            let unstarted = |m: &&Member| may_enter(m) && m.name.is_empty() && m.peer_urls.contains(&url);
            let member = list.members.iter().find(unstarted)?;
            Some(Invitation { by, list, member })
        })
        .collect()
}

/// The member lists of this epoch's cluster that peers have read through quorum.
pub(super) fn linearizable_lists<'a>(
    cx: &Context<'a>,
    genesis: &Genesis,
) -> Vec<(&'a NodeName, &'a MemberList)> {
    cx.known_peers()
        .filter_map(|(node, status)| Some((node, status.members.known()?)))
        .filter(|(_, list)| list.linearizable && list.cluster_id == genesis.cluster_id)
        .collect()
}

fn name_of(cx: &Context<'_>, member: &Member) -> Option<NodeName> {
    if !member.name.is_empty() {
        return NodeName::new(member.name.clone()).ok();
    }
    cx.spec
        .nodes
        .keys()
        .find(|node| {
            cx.spec
                .peer_url(node)
                .is_some_and(|url| member.peer_urls.contains(&url))
        })
        .cloned()
}

/// An assignment of this epoch whose particulars have changed: the member has started once, or etcd's settings did.
fn refresh(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Assignment> {
    let runs = cx
        .obs
        .me
        .etcd
        .known()
        .is_some_and(|e| assignment.is_of(e.cluster_id, e.member_id));
    let digest = cx.spec.settings_digest();
    let mut wanted = assignment.clone();
    let heard = !mutant!(FounderForgets) && has_published(cx, assignment);
    if !assignment.started && (runs || heard) {
        cx.because(
            "started-once",
            "from now on its environment says initial-cluster-state=existing",
        );
        wanted.initial_state = InitialState::Existing;
        wanted.started = true;
        wanted.restore = None;
    }
    let here = cx.obs.me.data.known().and_then(DataState::member);
    let own = here.is_some_and(|(cluster, member)| assignment.is_of(cluster, member));
    if wanted.restore.is_some() && own && !wanted.restored {
        cx.because(
            "own-data",
            "the restored data is in its place: from now on this member never starts without it",
        );
        wanted.restored = true;
    }
    if digest != assignment.settings_digest {
        cx.because(
            "settings-changed",
            "etcd's settings have changed: they are written now, and a running etcd asks for a restart",
        );
        wanted.settings_digest = digest;
        wanted.data_dir.clone_from(&cx.spec.etcd.data_dir);
        follow_address(cx, &mut wanted);
    }
    if wanted == *assignment {
        return None;
    }
    wanted.generation = next_generation(cx);
    Some(wanted)
}

/// Some member's list has client URLs of this one: it publishes them when it starts for the first time, perhaps while no
/// agent was there to see it.
fn has_published(cx: &Context<'_>, assignment: &Assignment) -> bool {
    let lists = cx.known_peers().filter_map(|(_, status)| status.members.known());
    lists
        .filter(|list| list.cluster_id == assignment.cluster_id)
        .filter_map(|list| list.get(assignment.member_id))
        .any(|member| !member.client_urls.is_empty())
}

/// The address that etcd is told is its own follows the node's, once the member has started: before that its ID comes
/// from the URLs under which it was added. A cluster of one was perhaps taken over, under an address that its owner
/// chose.
fn follow_address(cx: &Context<'_>, wanted: &mut Assignment) {
    if let Some(url) = cx.spec.peer_url(&cx.spec.node)
        && wanted.started
        && cx.spec.nodes.len() > 1
    {
        wanted.initial_cluster.insert(cx.spec.node.clone(), vec![url]);
    }
}

/// This node's member was removed and the node added anew.
fn replaced(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Option<Assignment> {
    // In an empty directory etcd takes its ID from its peers: it may have come up as the new member before that was assigned.
    let here = cx.obs.me.data.known().and_then(DataState::member);
    let other = here.is_some_and(|(cluster, member)| !assignment.is_of(cluster, member));
    if assignment.removed && other && !linearizable_lists(cx, genesis).is_empty() {
        let taken_up = own_member(cx, genesis);
        if taken_up.is_some() {
            return taken_up;
        }
    }
    let up = cx
        .obs
        .me
        .unit
        .known()
        .is_none_or(|unit| unit.active == ActiveState::Active);
    // One peer's list is not enough to give up a member, nor a founder's place: `etcd_unit::keep_running` asks the others first.
    let is_member = assignment.started || assignment.role == Role::Founder;
    if up || (is_member && !assignment.removed) {
        return None;
    }
    let mut anew = invitations(cx, genesis);
    let id = assignment.member_id;
    anew.retain(|invitation| invitation.member.id != id && invitation.list.get(id).is_none());
    joiner(cx, genesis, &anew)
}
