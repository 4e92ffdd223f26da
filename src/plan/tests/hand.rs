//! Every verb works on every node: which node a request is forwarded to.

use super::*;
use crate::plan::context::Context;
use crate::plan::hand;

/// The node that a request made on this observation's node is forwarded to. n1 leads.
fn goes_to(obs: &Observation, request: &OperatorRequest) -> Option<String> {
    let mut obs = obs.clone();
    obs.requests = vec![request.clone()];
    let memory = Memory::default();
    let mut cx = Context::new(&obs, &memory);
    match hand::over(&mut cx)? {
        Action::HandOver { request: handed, to } => {
            assert_eq!(handed, *request);
            Some(to.to_string())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn h09_what_only_another_node_can_do_is_handed_to_the_coordinator() {
    let follower = healthy(1);
    let mut spare = healthy(1);
    spare.me.etcd = Fact::Absent;
    let mut alone = spare.clone();
    for peer in alone.peers.values_mut() {
        *peer = Fact::Unreachable("cut off".to_owned());
    }
    let mut without_store = spare.clone();
    without_store.spec.backup_interval = None;
    let leader = healthy(0);
    let as_etcd_manager = OperatorRequest::BackupAs {
        format: BackupFormat::EtcdManager,
    };
    let move_leader = OperatorRequest::MoveLeader {
        to: None,
        from: None,
        id: 1,
        asked: SteadyMs(0),
    };
    let verify = OperatorRequest::Verify {
        backup: BackupId::new("b").unwrap(),
    };
    let backup = || OperatorRequest::Backup;
    let increment = || OperatorRequest::Increment;
    let rows = [
        ("a spare, a backup", &spare, backup(), Some("n1")),
        ("a spare, in a form", &spare, as_etcd_manager, Some("n1")),
        ("a spare, an increment", &spare, increment(), Some("n1")),
        ("a spare, another leader", &spare, move_leader.clone(), Some("n1")),
        ("a spare, what needs the store alone", &spare, verify, None),
        ("a spare, the same", &spare, OperatorRequest::Prune, None),
        ("a follower, a backup", &follower, backup(), None),
        ("a follower, an increment", &follower, increment(), Some("n1")),
        ("a follower, another leader", &follower, move_leader, None),
        ("the leader, an increment", &leader, increment(), None),
        ("no node in reach can", &alone, backup(), None),
        ("there is no store", &without_store, backup(), None),
    ];
    for (what, obs, request, expected) in rows {
        assert_eq!(goes_to(obs, &request).as_deref(), expected, "{what}");
    }
}

/// A request that cannot be forwarded to any node is answered instead of waiting.
#[test]
fn h09_what_nobody_can_do_is_answered() {
    let mut alone = healthy(1);
    alone.me.etcd = Fact::Unreachable("it does not answer".to_owned());
    for peer in alone.peers.values_mut() {
        *peer = Fact::Unreachable("cut off".to_owned());
    }
    alone.requests = vec![OperatorRequest::Backup];
    let decision = plan(&alone, &Memory::default());
    assert_eq!(
        decision.action.as_ref().map(Action::name),
        Some("answer"),
        "{decision:?}"
    );
}
