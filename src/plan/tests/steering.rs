//! What operators have ordered, as the planner follows it.

use std::collections::BTreeSet;

use super::*;

/// What it shows; the situation; what is done without a pause, and with one.
type Row<'a> = (
    &'a str,
    &'a dyn Fn() -> Observation,
    Option<&'a str>,
    Option<&'a str>,
);

fn pause(obs: &mut Observation) {
    let directives = &mut obs.me.steering.directives;
    *directives = directives
        .after(&DirectiveChange::Pause, &name(1), obs.now)
        .unwrap();
}

#[test]
fn a_pause_holds_back_what_is_autonomous_and_nothing_else() {
    let repair = || {
        let mut obs = healthy(0);
        lose_data(peer(&mut obs, 2));
        obs
    };
    let scheduled = || {
        let mut obs = healthy(0);
        obs.store = Fact::Known(StoreView {
            genesis: None,
            newest_backup: None,
            conditional_writes: true,
        });
        obs
    };
    let asked = || {
        let mut obs = scheduled();
        obs.requests = vec![OperatorRequest::Backup];
        obs
    };
    let down = || {
        let mut obs = healthy(1);
        obs.me.unit = unit(ActiveState::Failed);
        obs.me.etcd = Fact::Absent;
        obs
    };
    let rebooted = || {
        let mut obs = down();
        obs.gate.cleared = None;
        if let Fact::Known(unit) = &mut obs.me.unit {
            unit.active = ActiveState::Activating;
            unit.sub = "start-pre".into();
        }
        obs
    };
    let outdated = || {
        let mut obs = healthy(1);
        obs.newest_epoch = Epoch(2);
        obs
    };
    let bootstrap = || {
        let mut obs = fresh(0, 3, 3);
        obs.requests = vec![OperatorRequest::Bootstrap {
            without: BTreeSet::new(),
        }];
        obs
    };
    let table: [Row<'_>; 8] = [
        ("a repair", &repair, Some("remove-member"), None),
        ("a backup that is due", &scheduled, Some("backup"), None),
        (
            "a backup that was asked for",
            &asked,
            Some("backup"),
            Some("backup"),
        ),
        ("a start", &down, Some("start-etcd"), None),
        (
            "the gate of a rebooted host",
            &rebooted,
            Some("clear-gate"),
            Some("clear-gate"),
        ),
        (
            "an outdated epoch",
            &outdated,
            Some("stop-etcd"),
            Some("stop-etcd"),
        ),
        ("the first cluster", &|| fresh(0, 3, 3), Some("propose"), None),
        (
            "the first cluster, asked for",
            &bootstrap,
            Some("propose"),
            Some("propose"),
        ),
    ];
    for (what, observed, without, with) in table {
        let mut obs = observed();
        assert_eq!(action(&obs), without, "{what}");
        pause(&mut obs);
        assert_eq!(action(&obs), with, "{what}, paused");
        let decision = decide(&obs);
        assert!(has(&obs, "paused"), "{what}");
        assert!(decision.text.ends_with(", PAUSED"), "{what}: {}", decision.text);
    }
}

#[test]
fn a_newer_register_is_taken_over_from_any_peer_of_the_same_cluster() {
    let mut obs = healthy(1);
    let newer = Directives::default()
        .after(&DirectiveChange::Pause, &name(2), UnixMs(1))
        .unwrap();
    peer(&mut obs, 2).steering.directives = newer.clone();
    let Some(Action::TakeDirectives { directives }) = decide(&obs).action else {
        panic!("it was not taken over")
    };
    assert_eq!(*directives, newer);

    let mut same = obs.clone();
    same.me.steering.directives = newer;
    assert_eq!(action(&same), None);

    let mut foreign = obs.clone();
    peer(&mut foreign, 2).cluster = ClusterName::new("other").unwrap();
    assert_eq!(action(&foreign), None);

    let mut endless = obs;
    peer(&mut endless, 2).steering.directives.out = (0..1000)
        .map(|i| NodeName::new(format!("x{i}")).unwrap())
        .collect();
    assert_eq!(action(&endless), None);
}

#[test]
fn a_peer_that_knows_nothing_of_orders_is_understood() {
    let mut old = serde_json::to_value(&healthy(0).me).unwrap();
    old.as_object_mut().unwrap().remove("steering");
    let read: NodeStatus = serde_json::from_value(old).unwrap();
    assert_eq!(read.steering, Steering::default());
}
