//! A single lying node or a writer of the store stops nothing, archives nothing and locks no operator out (rule 10).

use super::*;

/// What n3 alone tells of operators' orders.
fn orders(change: impl FnOnce(&mut Directives)) -> Observation {
    let mut obs = healthy(0);
    let mut told = Directives {
        version: 1,
        by: Some(name(2)),
        ..Directives::default()
    };
    change(&mut told);
    peer(&mut obs, 2).steering.directives = told;
    obs
}

#[test]
fn f02_one_peers_orders_lock_nobody_out_and_take_no_majority_out() {
    let stranger = NodeName::new("x9").unwrap();
    let rows: Vec<(&str, Observation, bool)> = vec![
        ("an order", orders(|_| {}), true),
        ("one node out", orders(|d| d.out = [name(1)].into()), true),
        (
            "all others out",
            orders(|d| d.out = [name(0), name(1)].into()),
            false,
        ),
        ("a version far ahead", orders(|d| d.version = 1001), false),
        (
            "the last version there is",
            orders(|d| d.version = u64::MAX),
            false,
        ),
        ("by a stranger", orders(|d| d.by = Some(stranger)), false),
        ("by nobody", orders(|d| d.by = None), false),
    ];
    for (what, obs, taken) in rows {
        assert_eq!(action(&obs) == Some("take-directives"), taken, "{what}");
        assert_eq!(has(&obs, "orders-refused"), !taken, "{what}");
    }
    // Two who tell the same bear it out: this node was away for long.
    let mut obs = orders(|d| d.version = 5000);
    let told = peer(&mut obs, 2).steering.directives.clone();
    peer(&mut obs, 1).steering.directives = told;
    assert_eq!(action(&obs), Some("take-directives"));
    // Who was ordered out gives no orders any more.
    let mut obs = orders(|d| (d.version, d.paused) = (9, None));
    obs.me.steering.directives = Directives::default()
        .after(&DirectiveChange::Remove { node: name(2) }, &name(0), UnixMs(1))
        .unwrap();
    assert!(has(&obs, "orders-refused"));
}

fn stored(genesis: Genesis) -> Fact<StoreView> {
    Fact::Known(StoreView {
        genesis: Some(genesis),
        newest_backup: None,
        conditional_writes: true,
        went_back: None,
        size: Fact::Absent,
        trace: None,
        commands: Vec::new(),
        verify: VerifyView::default(),
    })
}

/// Whether this one is named as telling of an epoch that is not believed.
fn refuses(obs: &Observation, who: &str) -> bool {
    let decision = decide(obs);
    let mut reasons = decision.reasons.iter();
    reasons.any(|r| r.code == "epoch-refused" && r.text.starts_with(who))
}

#[test]
fn f02_an_epoch_too_far_ahead_is_refused_by_name_and_stops_and_holds_nothing() {
    for far in [1001, 1002, u64::MAX] {
        let mut running = healthy(1);
        peer(&mut running, 2).newest_epoch = Epoch(far);
        assert!(refuses(&running, "n3"), "epoch {far}");
        running.store = stored(genesis(&running.spec, 3, far.max(1002), Origin::Empty));
        assert!(refuses(&running, "the store"), "epoch {far}");
        assert_eq!(action(&running), None, "epoch {far}");
        let mut down = running;
        down.me.unit = unit(ActiveState::Failed);
        down.me.etcd = Fact::Absent;
        assert_eq!(action(&down), Some("start-etcd"), "epoch {far}");
    }
}

#[test]
fn f02_a_malformed_genesis_is_learned_from_nobody() {
    let broken = |obs: &Observation| Genesis {
        cluster_id: ClusterId(1),
        ..genesis(&obs.spec, 3, 2, Origin::Empty)
    };
    let mut obs = healthy(1);
    peer(&mut obs, 2).genesis = Some(broken(&obs));
    assert!(refuses(&obs, "n3"));
    assert_eq!(action(&obs), None);
    let mut obs = healthy(1);
    obs.store = stored(broken(&obs));
    assert!(refuses(&obs, "the store"));
    assert_eq!(action(&obs), None);
}

#[test]
fn f02_one_peers_list_neither_stops_nor_archives_a_member() {
    let mut obs = healthy(2);
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members.truncate(2);
        list.term = RaftTerm(u64::MAX);
    }
    assert_eq!(action(&obs), Some("check-removal"), "etcd itself is asked first");
    let assigned = obs.assignment.clone().unwrap();
    obs.removal = Some(RemovalView {
        cluster_id: assigned.cluster_id,
        member_id: assigned.member_id,
        removed: false,
        at: obs.steady,
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "removal-hearsay"));
    take_down(&mut obs.me, ActiveState::Failed);
    assert_eq!(
        action(&obs),
        Some("start-etcd"),
        "one peer's list does not keep etcd from being started"
    );
}

/// The list also invites this node to join anew. The node does not give up its member for that.
#[test]
fn f02_one_peers_invitation_takes_no_place_away() {
    let mut obs = healthy(2);
    take_down(&mut obs.me, ActiveState::Failed);
    let url = obs.spec.peer_url(&name(2)).unwrap();
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members.truncate(2);
        list.term = RaftTerm(u64::MAX);
        list.members.push(Member {
            id: MemberId(99),
            name: String::new(),
            peer_urls: vec![url],
            client_urls: Vec::new(),
            is_learner: true,
        });
    }
    assert_eq!(action(&obs), Some("check-removal"));
}
