//! The assignment of a member that joined later.

use std::collections::BTreeMap;
use std::time::Duration;

use super::assigned_version;
use super::context::Context;
use super::invitation::{Invitation, is_believed, linearizable_lists, witnesses};
use crate::model::{
    Assignment, DataState, Fact, FirstStart, Genesis, InitialState, Member, MemberId, MemberList, NodeName,
    RaftTerm, ReasonCode, Role, Transport, are_tls,
};

/// The assignment of a member that joined later and whose agent has lost its memory but not its data. The
/// cluster still lists the member.
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
        // No quorum can be asked, perhaps because this very member is missing. Raft relies on the member's
        // own disk, so it starts. If the member was removed meanwhile, the others do not accept it, and its
        // data goes into the archive once they report the removal.
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
    let joined = joined(cx, genesis, (member_id, listed), initial_cluster);
    Some(Assignment {
        started: true,
        etcd_version: assigned_version::of_own_member(cx, (cluster_id, member_id), joined.etcd_version),
        ..joined
    })
}

/// The assignment of a node that the coordinator has added as a learner and that has not started yet. If
/// there are several invitations, the one that most peers list counts.
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
            "{by} has added this node as member {}, and no second node confirms it: this agent does not know whether \
             its node had a member before; etcd could come back as that member without its data",
            member.id
        );
        cx.because(ReasonCode::InvitationHearsay, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    let initial_cluster = named(cx, list)?;
    if cx.spec.etcd.peer_tls.is_none() && are_tls(&member.peer_urls) {
        let text = format!(
            "this node was added at {}, and has no [etcd.peer_tls]: configure it as on the other nodes",
            member.peer_urls.join(",")
        );
        cx.because(ReasonCode::TransportDiffers, text);
        return None;
    }
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
    let own = initial_cluster.get(&cx.spec.node).cloned().unwrap_or_default();
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
        wal_dir: cx.spec.etcd.wal_dir.clone(),
        listed,
        started: false,
        removed: false,
        restore: None,
        restored: false,
        first_start: FirstStart::Held,
        transport: Some(Transport::at(&cx.spec.etcd, &own)),
        settings_digest: cx.spec.settings_digest(),
        etcd_version: assigned_version::of_new_member(cx),
    }
}

/// The peer URLs of every listed member by its node's name. An unstarted member has no name yet; its URL
/// identifies the node.
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
        .find(|node| cx.spec.is_at(node, &member.peer_urls))
        .cloned()
}
