//! What commands print as JSON is as `docs/schema/` says, and no more than that passes.

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use super::fixture::{NOW, backups, decision, name, node, observation, status};
use crate::cli::config::IsLoaded;
use crate::cli::discard_empty::DiscardView;
use crate::cli::move_etcd::Moved;
use crate::cli::out::{self, Versioned};
use crate::cli::status_view::{Form, shown};
use crate::cli::upgrade::Done;
use crate::cli::{events, plan};
use crate::model::*;

/// Why a value is not as a schema says; `None` if it is.
pub(in crate::cli) fn objection(schema: &str, value: &Value) -> Option<String> {
    let file = if schema.contains(".json") {
        schema.to_owned()
    } else {
        format!("{schema}.json")
    };
    let path = format!("{}/docs/schema/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut schemas = Schemas::new();
    let index = Compiler::new().compile(&path, &mut schemas).unwrap();
    schemas
        .validate(value, index)
        .err()
        .map(|error| format!("{error:#}"))
}

fn valid(schema: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(objection(schema, &value), None, "{schema}: {text}");
    value
}

/// A list as a command prints it.
pub(super) fn listed<T: serde::Serialize>(schema: &str, name: &'static str, list: &[T]) -> Value {
    let seen = valid(schema, &out::json(&out::named(name, list)).unwrap());
    assert_eq!(seen[name].as_array().unwrap().len(), list.len());
    seen
}

pub(super) fn object(schema: &str, value: impl serde::Serialize) -> Value {
    valid(schema, &out::json(&Versioned::new(value)).unwrap())
}

/// `status -o json`.
fn of(status: &AdminStatus) -> String {
    shown(status, Form::Json).unwrap()
}

fn ill() -> AdminStatus {
    let mut ill = status();
    ill.peers
        .insert(name("n2"), Fact::Unreachable("timed out".into()));
    let mut third = node(3);
    third.data = Fact::Known(DataState::Missing);
    third.etcd = Fact::Unreachable("connection refused".into());
    third.assignment = None;
    ill.peers.insert(name("n3"), Fact::Known(third));
    ill.store_error = Some("403 AccessDenied".into());
    ill.decision.reasons = vec![Reason::halt("foreign-data", "the data is of another cluster")];
    ill.node.steering.directives.paused = Some(Paused {
        since: NOW,
        by: name("n1"),
    });
    ill
}

#[test]
fn the_verdict_of_a_status() {
    let well = valid("status", &of(&status()));
    assert_eq!((&well["schema"], &well["health"]), (&json!(1), &json!("healthy")));
    assert_eq!(well["problems"], json!([]));
    let ill = ill();
    let seen = valid("status", &of(&ill));
    assert_eq!(seen["health"], "degraded");
    let codes: Vec<&str> = seen["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        [
            "members-missing",
            "node-unreachable",
            "member-not-serving",
            "member-not-serving",
            "store-unusable",
            "foreign-data"
        ]
    );
    assert_eq!(seen["problems"][1]["node"], "n2");
    assert!(
        seen["problems"][5]["help"]
            .as_str()
            .unwrap()
            .contains("etcd-agent-reasons(7)")
    );
    let mut starting = ill;
    starting.starting = true;
    assert_eq!(valid("status", &of(&starting))["health"], "starting");
    let mut down = status();
    down.peers.clear();
    down.node.etcd = Fact::Absent;
    assert_eq!(valid("status", &of(&down))["health"], "down");
}

#[test]
fn what_is_not_a_status_is_refused() {
    type Change = fn(&mut Value);
    let changes: &[(&str, Change)] = &[
        ("another version", |v| v["schema"] = json!(2)),
        ("an unknown verdict", |v| v["health"] = json!("fine")),
        ("healthy with problems", |v| v["health"] = json!("healthy")),
        ("ill without a problem", |v| v["problems"] = json!([])),
        ("a problem without a code", |v| {
            v["problems"][0].as_object_mut().unwrap().remove("code");
        }),
        ("no node", |v| {
            v.as_object_mut().unwrap().remove("node");
        }),
        ("a fact that is none", |v| {
            v["peers"]["n2"] = json!({"fact": "perhaps"});
        }),
        ("an unknown fact with a number", |v| {
            v["peers"]["n2"] = json!({"fact": "unreachable", "value": 1});
        }),
        ("an ID that is a number", |v| {
            v["node"]["etcd"]["value"]["member_id"] = json!(161);
        }),
    ];
    let good: Value = serde_json::from_str(&of(&ill())).unwrap();
    for (what, change) in changes {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(objection("status", &bad).is_some(), "{what}");
    }
    for (schema, name, item) in [
        ("events", "events", json!({"seq": 1})),
        (
            "backups",
            "backups",
            json!({"id": "x", "unreadable": "y", "revision": 1}),
        ),
        ("backups", "backups", json!({"id": "x", "unreadable": 1})),
        ("retention", "backups", json!({"id": "x", "keep": []})),
        ("alarms", "alarms", json!({"alarm": "NOSPACE"})),
        ("archives", "archives", json!({"name": "x", "keep": []})),
        ("commands", "commands", json!({"name": 1})),
        ("settings", "settings", json!({"field": "cluster.size"})),
    ] {
        let empty = json!({"schema": 1, name: []});
        assert_eq!(objection(schema, &empty), None);
        for bad in [
            json!([]),
            json!({name: []}),
            json!({"schema": 2, name: []}),
            json!({"schema": 1}),
            json!({"schema": 1, name: [item]}),
        ] {
            assert!(objection(schema, &bad).is_some(), "{schema}: {bad}");
        }
    }
    assert!(objection("change", &json!({"schema": 1})).is_some());
}

#[test]
fn plans_members_events_and_backups() {
    let mut view = plan::replay(observation());
    view.decision.action = Some(Action::Promote {
        id: MemberId(0xa2),
        node: name("n2"),
        term: RaftTerm(7),
    });
    let plan = object("plan", &view);
    let bytes = serde_json::to_vec(&plan).unwrap();
    assert_eq!(
        plan::parse(&bytes).unwrap(),
        observation(),
        "`plan --observation` reads it"
    );
    object("members", node(1).members.known().unwrap());
    let event = |outcome| Event {
        seq: 1,
        at: NOW,
        decision: "promote".to_owned(),
        reasons: vec!["promote: n2 has caught up".to_owned()],
        outcome,
        duration_ms: 12,
        times: 1,
    };
    let failed = EventOutcome::Failed {
        error: "etcdserver: unhealthy cluster".to_owned(),
    };
    let list = vec![event(EventOutcome::Done), event(failed)];
    let list = events::chosen(list, None, None);
    listed("events", "events", &list);
    // With --follow each is a line of its own.
    for event in &list {
        valid("events.json#/$defs/event", &out::json_line(event).unwrap());
    }
    let mut list: Vec<ListedBackup> = backups()
        .into_iter()
        .map(|summary| StoredBackup {
            covered: summary.revision,
            summary,
            writer: Writer::EtcdManager,
            epoch: Some(Epoch(1)),
            timeline: None,
            went_back: None,
            revision_at_most: None,
            verified: Some(Verified {
                at: NOW,
                problems: vec!["it is cut off".to_owned()],
            }),
            verify_unreadable: None,
            marks: Marks::default(),
        })
        .map(|stored| ListedBackup::Readable(Box::new(stored)))
        .collect();
    list.push(ListedBackup::Unreadable {
        id: backups()[0].id.clone(),
        unreadable: "403".to_owned(),
    });
    if let ListedBackup::Readable(stored) = &mut list[0] {
        stored.marks.kept = Some(Kept {
            since: NOW,
            node: name("n1"),
            reason: Some("audit".to_owned()),
        });
        stored.marks.note = Some(Note {
            at: NOW,
            node: name("n2"),
            text: "before the upgrade".to_owned(),
        });
    }
    let seen = listed("backups", "backups", &list);
    assert_eq!(seen["backups"][0]["kept"]["reason"], "audit");
    let stored = list.into_iter().filter_map(|listed| match listed {
        ListedBackup::Readable(stored) => Some(*stored),
        ListedBackup::Unreadable { .. } => None,
    });
    let verdicts = crate::plan::judge(&stored.collect::<Vec<_>>(), NOW, &Retention::default());
    let seen = listed("retention", "backups", &verdicts);
    assert_eq!(seen["backups"][0]["keep"], json!(["kept", "not-ours"]));
}

#[test]
fn the_other_lists() {
    let alarm = Alarm {
        alarm: AlarmKind::NoSpace,
        member_id: MemberId(0xa1),
        node: Some(name("n1")),
    };
    listed("alarms", "alarms", &[alarm]);
    let command = StoreCommand {
        name: "2023-11-14T23:00:00Z-000000".to_owned(),
        at: Some(NOW),
        restore: None,
        problem: Some("it is garbage".to_owned()),
    };
    listed("commands", "commands", &[command]);
    let (_root, paths) = super::fixture::settings_tree("[node]\nname = \"n1\"\n");
    let entries = crate::config::load(&paths).unwrap().unwrap().entries;
    let seen = listed("settings", "settings", &entries);
    assert!(seen["settings"].as_array().unwrap().len() > 20);
    object("loaded", IsLoaded { loaded: true });
}

#[test]
fn answers_of_verbs_that_change_something() {
    let change = DirectiveChange::Pause;
    let view = DirectiveView {
        directives: Directives::default().after(&change, &name("n1"), NOW).unwrap(),
        changed: true,
        steps: crate::plan::steps(&change),
        decision: Some(decision("paused")),
    };
    assert_eq!(object("change", &view)["changed"], true);
    object(
        "change",
        &ReleaseView {
            node: name("n1"),
            changed: false,
        },
    );
    object(
        "change",
        &SizeView {
            size: 5,
            before: 3,
            changed: true,
            place: "config.toml:3".to_owned(),
            decision: None,
        },
    );
    object(
        "change",
        &Done {
            changed: true,
            steps: vec!["3.6.16".parse().unwrap()],
            message: "done".to_owned(),
        },
    );
    object(
        "change",
        &Moved {
            changed: true,
            backup: Some(backups()[0].id.clone()),
            message: "moved".to_owned(),
        },
    );
    object(
        "change",
        &DiscardView {
            changed: true,
            data_dir: "/var/lib/etcd/default".into(),
            archived: None,
            message: "moved away".to_owned(),
        },
    );
    object(
        "change",
        &BackupChangeView {
            backup: backups()[0].id.clone(),
            changed: true,
            message: "backup x is deleted".to_owned(),
        },
    );
    object(
        "request",
        &RequestView {
            id: 3,
            request: OperatorRequest::Backup,
            state: RequestState::Done,
            message: "backup x committed".to_owned(),
            changed: true,
        },
    );
}

/// Each code has its row in the documentation.
#[test]
fn problems_are_documented() {
    let page = include_str!("../../../docs/output.md");
    for (code, help) in health::PROBLEMS {
        assert!(
            page.contains(&format!("| `{code}` |")),
            "docs/output.md lacks {code}"
        );
        assert!(!help.is_empty());
    }
    for word in health::Health::WORDS {
        assert!(page.contains(&format!("`{word}`")), "docs/output.md lacks {word}");
    }
}
