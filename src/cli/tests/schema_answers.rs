//! More of what commands print as JSON, compared with `docs/schema/`.

use serde_json::{Value, json};

use super::fixture::{NOW, backups, name, observation_of_an_epoch, status};
use super::schema::{object, objection};
use crate::adapters::store_check::{Found, Right, StoreReport, Tried};
use crate::cli::alarm::Disarmed;
use crate::cli::bootstrapped::Opened;
use crate::cli::config::Checked;
use crate::cli::init::Initialized;
use crate::cli::log_level::Level;
use crate::cli::out::Versioned;
use crate::cli::reload::Reloaded;
use crate::cli::restore_to::Built;
use crate::cli::{backup_change, backup_show, commands, plan_after};
use crate::model::{testing, *};

#[test]
fn answers_of_verbs_that_had_none() {
    let seen = object("change", Opened::of(&status(), true));
    assert_eq!((&seen["changed"], &seen["epoch"]), (&json!(true), &json!(1)));
    let backup = backups()[0].id.clone();
    object(
        "change",
        Built {
            changed: true,
            data_dir: "/tmp/data".into(),
            backup: backup.clone(),
            revision: Revision(7),
            message: "built".to_owned(),
        },
    );
    object(
        "change",
        Initialized {
            changed: false,
            node: name("n1"),
            message: "healthy".to_owned(),
        },
    );
    object(
        "change",
        Reloaded {
            changed: false,
            message: "in force".to_owned(),
        },
    );
    object(
        "change",
        commands::Deleted {
            changed: false,
            name: "x".to_owned(),
            message: "there is no command x in the store".to_owned(),
        },
    );
    let one = |message: Option<&str>, error: Option<&str>| backup_change::DeletedOne {
        backup: backup.clone(),
        changed: message.is_some(),
        message: message.map(str::to_owned),
        error: error.map(str::to_owned),
    };
    let several = |backups| backup_change::Deleted {
        changed: true,
        message: "1 of 2 backups are deleted".to_owned(),
        backups,
    };
    let seen = object(
        "change",
        several(vec![
            one(Some("deleted"), None),
            one(None, Some("it is the newest one")),
        ]),
    );
    assert_eq!(seen["backups"][1]["error"], "it is the newest one");
    let neither = Versioned::new(several(vec![one(None, None)]));
    assert!(objection("change", &serde_json::to_value(&neither).unwrap()).is_some());
    let alarm = Alarm {
        alarm: AlarmKind::NoSpace,
        member_id: MemberId(0xa1),
        node: None,
    };
    object(
        "disarm",
        Disarmed {
            changed: true,
            view: DisarmView {
                disarmed: vec![alarm.clone()],
                left: vec![alarm],
            },
        },
    );
    let filter = "warn,etcd_agent=debug".to_owned();
    object(
        "log-level",
        Level {
            changed: true,
            view: LogView { filter },
        },
    );
    for accepted in [None, Some("cluster.name: lost".to_owned())] {
        object(
            "check",
            Checked {
                changed: accepted.is_some(),
                files: vec!["/etc/etcd-agent/config.toml".to_owned()],
                warnings: vec!["x".to_owned()],
                accepted,
            },
        );
    }
    for (schema, bad) in [
        ("change", json!({"schema": 1, "changed": "yes"})),
        (
            "request",
            json!({"schema": 1, "id": 1, "request": "x", "state": "done", "message": ""}),
        ),
        ("disarm", json!({"schema": 1, "disarmed": [], "left": []})),
        ("log-level", json!({"schema": 1, "filter": "x"})),
        ("check", json!({"schema": 1, "changed": false})),
    ] {
        assert!(objection(schema, &bad).is_some(), "{schema}: {bad}");
    }
}

#[test]
fn what_may_be_stopped_and_what_would_follow() {
    let mut seen = observation_of_an_epoch();
    let well = object("ok-to-stop", crate::plan::ok_to_stop(&seen, &name("n2")));
    assert_eq!((&well["ok"], &well["left"]["quorum"]), (&json!(true), &json!(2)));
    let after = plan_after::suppose(&seen, &"lose n2".parse().unwrap()).unwrap();
    let after = object("after", after);
    assert_eq!(after["after"], json!({"fault": "lose", "node": "n2"}));
    let silent = Fact::Unreachable("no route to host".to_owned());
    seen.peers.insert(name("n2"), silent);
    let ill = object("ok-to-stop", crate::plan::ok_to_stop(&seen, &name("n3")));
    assert_eq!(ill["ok"], false);
    assert!(!ill["reasons"].as_array().unwrap().is_empty());
    seen.me.members = Fact::Absent;
    seen.peers.clear();
    let unknown = object("ok-to-stop", crate::plan::ok_to_stop(&seen, &name("n1")));
    assert_eq!(unknown["left"], Value::Null);
    for (schema, good, field) in [("ok-to-stop", &well, "ok"), ("after", &after, "decision")] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(field);
        assert!(objection(schema, &bad).is_some(), "{schema} without {field}");
    }
}

#[test]
fn the_spec_and_the_rights_in_the_store() {
    let mut spec = testing::spec(&["n1", "n2", "n3"]);
    let seen = object("spec", &spec);
    assert_eq!(seen["nodes"]["n2"], "n2");
    spec.size_source = SizeSource::Config {
        file: "/etc/etcd-agent/config.toml".into(),
        line: 3,
    };
    spec.backup_interval = Some(std::time::Duration::from_hours(1));
    spec.etcd.client_tls = Some(TlsFiles {
        cert_file: "cert".into(),
        key_file: "key".into(),
        ca_file: "ca".into(),
    });
    spec.etcd.binary = Some("/opt/etcd".into());
    object("spec", &spec);
    let mut bad = seen;
    bad["grace"] = json!("5m");
    assert!(objection("spec", &bad).is_some());
    let tried = |right, found| Tried { right, found };
    let report = StoreReport {
        store: "s3://backups/etcd".to_owned(),
        ok: false,
        rights: vec![
            tried(Right::List, Found::Ok),
            tried(
                Right::ReadRange,
                Found::Failed {
                    error: "403".to_owned(),
                    advice: None,
                },
            ),
            tried(
                Right::Create,
                Found::Skipped {
                    why: "not needed".to_owned(),
                },
            ),
        ],
        left_behind: vec!["x".to_owned()],
    };
    let seen = object("store-check", report);
    assert_eq!(seen["rights"][1]["result"], "failed");
    let mut bad = seen;
    bad["rights"][2].as_object_mut().unwrap().remove("why");
    assert!(objection("store-check", &bad).is_some());
}

#[test]
fn one_backup() {
    let shown = |listed, keep| object("backup", backup_show::Shown { listed, keep });
    let stored = StoredBackup {
        covered: Revision(81_240),
        summary: backups().remove(1),
        writer: Writer::EtcdAgent,
        epoch: Some(Epoch(1)),
        timeline: Some(0),
        went_back: None,
        revision_at_most: None,
        verified: Some(Verified {
            at: NOW,
            problems: Vec::new(),
        }),
        verify_unreadable: None,
        marks: Marks::default(),
    };
    let readable = || ListedBackup::Readable(Box::new(stored.clone()));
    let seen = shown(readable(), Some(vec![Keep::Newest, Keep::NotOurs]));
    assert_eq!(seen["keep"], json!(["newest", "not-ours"]));
    assert_eq!(seen["covered"], 81_240);
    assert_eq!(shown(readable(), None).get("keep"), None);
    let unreadable = ListedBackup::Unreadable {
        id: backups()[0].id.clone(),
        unreadable: "403".to_owned(),
    };
    let mut bad = shown(unreadable, None);
    assert_eq!(bad["unreadable"], "403");
    bad["revision"] = json!(1);
    assert!(objection("backup", &bad).is_some());
}
