//! Operators' orders that peers report: which orders are taken over, and which nodes refuse an order.

use super::*;
use crate::plan::{known_orders, objection, ordered_out};

/// A healthy cluster in which n3 alone reports these orders of operators.
fn orders(change: impl FnOnce(&mut Directives)) -> Observation {
    let mut obs = healthy(0);
    let mut reported = Directives {
        version: 1,
        by: Some(name(2)),
        ..Directives::default()
    };
    change(&mut reported);
    peer(&mut obs, 2).steering.directives = reported;
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
    // Two peers with the same register confirm it: this node was cut off for long.
    let mut obs = orders(|d| d.version = 5000);
    let reported = peer(&mut obs, 2).steering.directives.clone();
    peer(&mut obs, 1).steering.directives = reported;
    assert_eq!(action(&obs), Some("take-directives"));
    // A node that was ordered out gives no orders any more.
    let mut obs = orders(|d| (d.version, d.paused) = (9, None));
    obs.me.steering.directives = Directives::default()
        .after(&DirectiveChange::Remove { node: name(2) }, &name(0), UnixMs(1))
        .unwrap();
    assert!(has(&obs, "orders-refused"));
}

/// A reinstalled agent may receive an order before it has taken over the earlier orders.
#[test]
fn an_order_is_added_to_the_newest_orders_that_are_known() {
    let obs = orders(|d| d.size = Some(5));
    let reported = obs.peers[&name(2)].known().unwrap().steering.directives.clone();
    assert_eq!(known_orders(&obs), reported);
    let obs = orders(|d| d.out = [name(0), name(1)].into());
    assert_eq!(known_orders(&obs), Directives::default(), "it is not believed");
}

/// The other nodes would not follow its order, and anything that it writes to the store would stay there.
#[test]
fn a_node_that_was_ordered_out_takes_no_order() {
    let out = Directives::default()
        .after(&DirectiveChange::Remove { node: name(0) }, &name(1), UnixMs(1))
        .unwrap();
    let back = out
        .after(&DirectiveChange::Add { node: name(0) }, &name(1), UnixMs(2))
        .unwrap();
    let busy = Directives {
        version: 3,
        by: Some(name(0)),
        ..Directives::default()
    };
    let none = Directives::default();
    // The registers of n1, n2 and n3.
    let rows = [
        ("nobody was ordered out", [&none, &none, &none], false),
        ("it knows", [&out, &out, &out], true),
        ("it has just received it", [&none, &out, &none], true),
        (
            "a majority has ordered it out, and the order here is newer",
            [&busy, &out, &out],
            true,
        ),
        (
            "one has, and the order here is newer",
            [&busy, &out, &none],
            false,
        ),
        ("it is back, as it has just received", [&out, &back, &out], false),
    ];
    for (what, [mine, second, third], expected) in rows {
        let mut obs = healthy(0);
        obs.me.steering.directives = mine.clone();
        peer(&mut obs, 1).steering.directives = second.clone();
        peer(&mut obs, 2).steering.directives = third.clone();
        assert_eq!(ordered_out(&obs).is_some(), expected, "{what}");
        let refused = objection(&obs, &DirectiveChange::Pause, false);
        assert_eq!(refused, ordered_out(&obs), "{what}");
    }
}

/// n1 was ordered out while it was cut off, and an order was given at n1 meanwhile. The other nodes never
/// take that order over.
#[test]
fn a_node_that_a_majority_has_ordered_out_follows_their_orders() {
    let reported = Directives::default()
        .after(&DirectiveChange::Remove { node: name(0) }, &name(1), UnixMs(1))
        .unwrap();
    let mine = Directives {
        version: 3,
        by: Some(name(0)),
        size: Some(5),
        ..Directives::default()
    };
    let other = Directives {
        version: 2,
        ..reported.clone()
    };
    // n1 was ordered out at n1, too, and n1's register is the newer one.
    let here_too = Directives {
        out: [name(0)].into(),
        ..mine.clone()
    };
    let rows = [
        (
            "all others",
            &mine,
            [reported.clone(), reported.clone()],
            Some("take-directives"),
        ),
        (
            "all others, and this one",
            &here_too,
            [reported.clone(), reported.clone()],
            Some("take-directives"),
        ),
        (
            "one of them lies, or does not know yet",
            &mine,
            [reported.clone(), other],
            None,
        ),
        (
            "a peer has received the order",
            &mine,
            [reported.clone(), mine.clone()],
            None,
        ),
        (
            "all have the same",
            &reported,
            [reported.clone(), reported.clone()],
            Some("move-leader"),
        ),
    ];
    for (what, mine, tells, expected) in rows {
        let mut obs = healthy(0);
        obs.me.steering.directives = mine.clone();
        for (i, reported) in tells.into_iter().enumerate() {
            peer(&mut obs, i + 1).steering.directives = reported;
        }
        assert_eq!(action(&obs), expected, "{what}");
    }
}
