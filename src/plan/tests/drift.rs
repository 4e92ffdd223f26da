//! Settings of the running etcd that differ from what is configured.

use super::versions_world::{runs, upgrade, version, with_versions};
use super::*;
use crate::plan::{newly_ignored, setting_objection, upgrade_objection};

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
        order,
        ..RestartWish::new("older settings".into())
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

#[test]
fn a_version_that_would_ignore_a_setting_is_refused_and_a_running_one_is_shown() {
    let mut obs = with_versions(0, &["3.5.36", "3.6.16"]);
    let name = "experimental-enable-v2v3".to_owned();
    obs.spec.etcd.settings.insert(name, "/v2".to_owned());
    let ordered = |obs: &Observation, to| upgrade_objection(obs, &upgrade(to));
    assert_eq!(ordered(&obs, "3.5.36"), None);
    assert!(!has(&obs, "setting-ignored"));
    let refused = ordered(&obs, "3.6.16").unwrap();
    let expected = "etcd 3.6.16 would ignore etcd.settings.experimental-enable-v2v3 (etcd 3.4 and 3.5 have it): take it out";
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(setting_objection(&obs.spec, version("3.6.16")), Some(refused));
    runs(&mut obs.me, "3.6.16");
    let decision = decide(&obs);
    let shown = decision
        .reasons
        .iter()
        .find(|reason| reason.code == "setting-ignored");
    assert!(!shown.unwrap().halt, "etcd serves");
}

#[test]
fn a_reload_that_adds_what_the_running_etcd_ignores_is_refused() {
    let before = with_versions(0, &["3.5.36"]).spec;
    let mut after = before.clone();
    let refused = |before: &Spec, after: &Spec, running| {
        let found = newly_ignored(before, after, version(running)).into_iter();
        found.map(|(field, _)| field).collect::<Vec<_>>()
    };
    for (name, value) in [
        ("snapshot-count", "1000"),
        ("compaction-batch-limit", "10"),
        ("enable-v2", "true"),
    ] {
        after.etcd.settings.insert(name.to_owned(), value.to_owned());
    }
    assert_eq!(
        refused(&before, &after, "3.5.36"),
        ["etcd.settings.compaction-batch-limit"]
    );
    let (_, text) = newly_ignored(&before, &after, version("3.5.36")).remove(0);
    assert!(
        text.contains("its name there is experimental-compaction-batch-limit"),
        "{text}"
    );
    // Its own name, or the move to 3.4 that it is for.
    assert_eq!(refused(&before, &after, "3.6.16"), Vec::<String>::new());
    // What was there before holds no other change back.
    assert_eq!(refused(&after, &after, "3.5.36"), Vec::<String>::new());
}
