//! One node that lies locks no operator out (rule 10).

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
