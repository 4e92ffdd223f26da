//! Invitations: a member that the coordinator has added for this node, and which of them is believed.

use super::context::Context;
use super::founder::took_part;
use crate::model::{Genesis, Join, Member, MemberList, NodeName, NodeStatus};

/// An unstarted member with this node's peer URL, in a member list that a peer has read through quorum.
pub(super) struct Invitation<'a> {
    /// The peer.
    pub(super) by: &'a NodeName,
    pub(super) list: &'a MemberList,
    pub(super) member: &'a Member,
}

/// The invitations of this node in the member lists of its peers.
pub(super) fn invitations<'a>(cx: &Context<'a>, genesis: &Genesis) -> Vec<Invitation<'a>> {
    // Under `prepare` an operator adds the entry, and may add it as a voter too.
    let may_enter = |m: &Member| m.is_learner || cx.spec.join == Join::Prepare;
    linearizable_lists(cx, genesis)
        .into_iter()
        .filter_map(|(by, list)| {
            let at_me = |m: &Member| cx.spec.is_at(&cx.spec.node, &m.peer_urls);
            let unstarted = |m: &&Member| may_enter(m) && m.name.is_empty() && at_me(m);
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

/// How many peers list the unstarted member that an invitation names. IDs are never used twice, so a list
/// that was not read through quorum is just as good evidence.
pub(super) fn witnesses(cx: &Context<'_>, genesis: &Genesis, invitation: &Invitation<'_>) -> usize {
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

/// Whether this node may start as the member that an invitation names. With an empty data directory etcd
/// takes its ID from its peers, by its peer URL. If they still list the member that this node had before,
/// etcd comes back as that member, without the writes that it has acknowledged. So one peer's invitation is
/// enough only for a node that cannot have had a member (rule 10), or if the peer is the only voter and every
/// other node answers and has no member.
pub(super) fn is_believed(cx: &Context<'_>, genesis: &Genesis, invitation: &Invitation<'_>) -> bool {
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
