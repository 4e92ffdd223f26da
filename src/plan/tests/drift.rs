//! Settings of the running etcd that differ from what is configured.

use super::*;

#[test]
fn the_settings_of_each_process_are_compared_once() {
    let mut obs = healthy(1);
    obs.drift.unread = true;
    let decision = decide(&obs);
    assert_eq!(decision.action, Some(Action::InspectData));
    let again = crate::plan::plan(&obs, &decision.memory);
    assert_ne!(
        again.action,
        Some(Action::InspectData),
        "not before 15 s have passed"
    );
    let started = Memory {
        started_at: Some(obs.steady),
        ..Memory::default()
    };
    // An agent that has started etcd first remembers the members.
    if let Some(Action::RememberSpec { record }) = crate::plan::plan(&obs, &started).action {
        obs.spec_record = *record;
    }
    let early = crate::plan::plan(&obs, &started).action;
    assert_eq!(early, None, "other members are restarted first");
    obs.steady = SteadyMs(obs.steady.0 + 10_000);
    let later = crate::plan::plan(&obs, &started).action;
    assert_eq!(later, Some(Action::InspectData));
    obs.drift.unread = false;
    assert_eq!(action(&obs), None);
}

#[test]
fn an_etcd_that_gets_new_settings_is_compared_after_its_restart() {
    let mut obs = healthy(1);
    obs.drift.unread = true;
    let wish = |order| RestartWish {
        why: "older settings".into(),
        order,
        version: false,
        held: None,
    };
    obs.me.steering.wants_restart = Some(wish(None));
    assert_eq!(action(&obs), None);
    obs.me.steering.wants_restart = Some(wish(Some(7)));
    assert_eq!(action(&obs), Some("inspect-data"), "an order changes no settings");
}

#[test]
fn settings_that_differ_are_shown_and_change_nothing() {
    let mut obs = healthy(1);
    let lines = [
        "etcd runs with max-wals=9, which is not configured",
        "etcd runs without cors",
    ];
    obs.drift.found = Fact::Known(lines.map(str::to_owned).to_vec());
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let shown: Vec<&str> = decision
        .reasons
        .iter()
        .filter(|reason| reason.code == "settings-drift" && !reason.halt)
        .map(|reason| reason.text.as_str())
        .collect();
    assert_eq!(shown, lines);
    obs.drift.found = Fact::Known(Vec::new());
    assert!(!has(&obs, "settings-drift"));
}

#[test]
fn settings_that_cannot_be_read_are_unknown_and_not_the_same() {
    let mut obs = healthy(1);
    obs.drift.found = Fact::Unreachable("permission denied".to_owned());
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let reason = decision
        .reasons
        .iter()
        .find(|reason| reason.code == "settings-drift");
    assert!(reason.unwrap().text.contains("not known: permission denied"));
}
