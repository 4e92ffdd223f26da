//! The assignment of an initial voter of the genesis.

use super::assigned_version;
use super::context::Context;
use crate::model::{
    Assignment, DataState, Fact, FirstStart, Genesis, InitialState, MemberId, Origin, RaftTerm, ReasonCode,
    Role, Transport,
};

/// The assignment of an initial voter of the genesis. It says `initial-cluster-state=new` only if this very
/// memory took part in the genesis and nothing was ever assigned: then the member cannot have started before.
/// Any other node could come back as the same voter without the writes that it has acknowledged.
pub(super) fn founder(cx: &mut Context<'_>, genesis: &Genesis) -> Option<Assignment> {
    let mut wanted = base(cx, genesis)?;
    if let Fact::Known(DataState::Present {
        cluster_id,
        member_id,
    }) = cx.obs.me.data
    {
        if wanted.is_of(cluster_id, member_id) {
            cx.because(
                ReasonCode::OwnData,
                "the data directory is this member's own: it is taken up again",
            );
            wanted.initial_state = InitialState::Existing;
            wanted.started = true;
            wanted.first_start = FirstStart::Allowed;
            wanted.transport = Some(transport_of(cx, genesis, member_id));
            wanted.etcd_version =
                assigned_version::of_own_member(cx, (cluster_id, member_id), wanted.etcd_version);
            return Some(wanted);
        }
        if let Origin::Member(node) = &genesis.origin
            && *node == cx.spec.node
            && cluster_id == genesis.cluster_id
        {
            wanted.member_id = member_id;
            wanted.initial_state = InitialState::Existing;
            wanted.started = true;
            wanted.first_start = FirstStart::Allowed;
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
            ReasonCode::Founder,
            format!("epoch {} is restored from {backup} here too", genesis.epoch),
        );
        return Some(wanted);
    }
    match &cx.obs.me.data {
        Fact::Known(DataState::Missing) => {
            cx.because(
                ReasonCode::Founder,
                format!("this node is an initial member of epoch {}", genesis.epoch),
            );
            Some(wanted)
        }
        Fact::Known(other) => {
            cx.halt(
                ReasonCode::DataInTheWay,
                format!("a new member needs an empty data directory, found {other}"),
            );
            None
        }
        Fact::Absent | Fact::Unreachable(_) => None,
    }
}

/// The transport of a member that has run: of the URLs under which it is listed, or as configured.
fn transport_of(cx: &Context<'_>, genesis: &Genesis, id: MemberId) -> Transport {
    let lists = cx.known_peers().filter_map(|(_, status)| status.members.known());
    let listed = lists
        .filter(|list| list.linearizable && list.cluster_id == genesis.cluster_id)
        .find_map(|list| list.get(id));
    match listed {
        Some(member) => Transport::at(&cx.spec.etcd, &member.peer_urls),
        None => Transport::configured(&cx.spec.etcd),
    }
}

fn base(cx: &Context<'_>, genesis: &Genesis) -> Option<Assignment> {
    Some(Assignment {
        generation: cx.next_generation(),
        epoch: genesis.epoch,
        node: cx.spec.node.clone(),
        member_id: genesis.member_id(&cx.spec.node)?,
        cluster_id: genesis.cluster_id,
        token: genesis.token.clone(),
        role: Role::Founder,
        initial_state: InitialState::New,
        initial_cluster: genesis.members.clone(),
        data_dir: cx.spec.etcd.data_dir.clone(),
        wal_dir: cx.spec.etcd.wal_dir.clone(),
        listed: RaftTerm::default(),
        started: false,
        removed: false,
        restore: None,
        restored: false,
        first_start: FirstStart::Held,
        transport: Some(Transport::at(&cx.spec.etcd, genesis.members.get(&cx.spec.node)?)),
        settings_digest: cx.spec.settings_digest(),
        // What is selected later is put in force under a grant.
        etcd_version: match genesis.etcd {
            Some(etcd) => Some(etcd.version),
            None => cx.selected.as_ref().and_then(|selected| selected.version),
        },
    })
}

/// True if this very memory took part in the genesis. The electorate is not part of a genesis' value: a lying
/// node can name a new memory in it (rule 10). In a memory that took part, the genesis is confirmed.
pub(super) fn took_part(cx: &Context<'_>, genesis: &Genesis) -> bool {
    let confirmed = !cx.obs.elector.hearsay || mutant!(BelievesElectorates);
    confirmed && genesis.electorate.get(&cx.spec.node) == Some(&cx.obs.me.incarnation)
}
