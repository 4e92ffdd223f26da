//! The assignment of a member that joined later.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::Context;
use super::invitation::{Invitation, is_believed, linearizable_lists, witnesses};
use crate::model::{
    Assignment, DataState, Fact, Genesis, InitialState, Member, MemberId, MemberList, NodeName, RaftTerm,
    ReasonCode, Role,
};

/// A member that joined later and whose agent has lost its memory, but not the data: the cluster still lists it.
pub(super) fn own_member(cx: &mut Context<'_>, genesis: &Genesis) -> Option<Assignment> {
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
        ReasonCode::OwnData,
        "the data directory is this member's own: it is taken up again",
    );
    Some(Assignment {
        started: true,
        ..joined(cx, genesis, (member_id, listed), initial_cluster)
    })
}

/// A node that the coordinator has added as a learner, and that has not started yet. Of several invitations the one that most
/// peers know of counts.
pub(super) fn joiner(
    cx: &mut Context<'_>,
    genesis: &Genesis,
    invitations: &[Invitation<'_>],
) -> Option<Assignment> {
    let most = |invitation: &&Invitation<'_>| witnesses(cx, genesis, invitation);
    let invitation = invitations.iter().max_by_key(most)?;
    let Invitation { by, list, member } = *invitation;
    if !is_believed(cx, genesis, invitation) {
        let text = format!(
            "{by} has added this node as member {}, and no second node says so: this agent does not know whether its node had a \
             member before, which etcd would come back as without its data",
            member.id
        );
        cx.because(ReasonCode::InvitationHearsay, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    let initial_cluster = named(cx, list)?;
    cx.because(
        ReasonCode::Joiner,
        format!("the coordinator has added this node as learner {}", member.id),
    );
    Some(joined(cx, genesis, (member.id, list.term), initial_cluster))
}

fn joined(
    cx: &Context<'_>,
    genesis: &Genesis,
    (member_id, listed): (MemberId, RaftTerm),
    initial_cluster: BTreeMap<NodeName, Vec<String>>,
) -> Assignment {
    Assignment {
        generation: cx.next_generation(),
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

/// Every member of the list by its node's name, which an unstarted one does not have yet.
fn named(cx: &Context<'_>, list: &MemberList) -> Option<BTreeMap<NodeName, Vec<String>>> {
    list.members
        .iter()
        .map(|member| Some((name_of(cx, member)?, member.peer_urls.clone())))
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
