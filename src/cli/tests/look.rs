//! `status`: its forms, hostile words in it, and `--watch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};

use super::fixture::{NOW, name, status};
use super::socket::serve;
use crate::cli::out::{Format, Output};
use crate::cli::status_view::{Form, painted, shown};
use crate::cli::status_watch::Watch;
use crate::cli::{Exit, direct, events, members};
use crate::model::*;

/// What a node, a store or a key can have put into a text.
const HOSTILE: &str = "x\n\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31m\u{202e}\u{2066}<b>&amp;";

fn hostile() -> AdminStatus {
    let mut hostile = status();
    hostile
        .peers
        .insert(name("n2"), Fact::Unreachable(HOSTILE.to_owned()));
    if let Fact::Known(etcd) = &mut hostile.node.etcd {
        etcd.version = HOSTILE.to_owned();
        etcd.errors = vec![HOSTILE.to_owned()];
    }
    if let Fact::Known(list) = &mut hostile.node.members {
        list.members[2].name = HOSTILE.to_owned();
        list.members[2].is_learner = true;
    }
    hostile.node.agent_version = HOSTILE.to_owned();
    hostile.decision.text = HOSTILE.to_owned();
    hostile.decision.reasons = vec![Reason::new("waiting-for-electors", HOSTILE)];
    hostile.conflicts = vec![HOSTILE.to_owned()];
    hostile
}

#[test]
fn hostile_words_are_shown_as_text() {
    let obeyed = ['\u{1b}', '\u{7}', '\r', '\u{9b}', '\u{202e}', '\u{2066}'];
    for form in [Form::Table, Form::Wide, Form::Json, Form::Yaml] {
        let text = shown(&hostile(), form).unwrap();
        assert!(!text.contains(obeyed), "{form:?}: {text:?}");
        assert!(text.contains("<b>&amp;"), "{form:?}: text stays text");
    }
    let table = shown(&hostile(), Form::Table).unwrap();
    assert!(table.starts_with("x\\n\\u{1b}[2J"), "{table}");
    assert!(table.lines().all(|line| !line.starts_with('\u{1b}')), "{table}");
    let json: serde_json::Value = serde_json::from_str(&shown(&hostile(), Form::Json).unwrap()).unwrap();
    assert_eq!(json["conflicts"][0], HOSTILE, "programs get the same value");
    insta::assert_snapshot!("hostile", table);
}

/// Characters that a terminal obeys, and a line end within a value.
const OBEYED: [char; 6] = ['\u{1b}', '\u{7}', '\r', '\u{9b}', '\u{202e}', '\u{2066}'];
/// What is left of [`HOSTILE`] on a terminal.
const SHOWN: &str = r"x\n\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31m\u{202e}\u{2066}<b>&amp;";

fn output(format: Format) -> Output {
    Output { format }
}

#[test]
fn hostile_words_of_events_are_shown_as_text() {
    let event = |outcome| Event {
        seq: 1,
        at: NOW,
        decision: HOSTILE.to_owned(),
        reasons: vec![format!("promote: {HOSTILE}")],
        outcome,
        duration_ms: 12,
        times: 2,
    };
    let failed = EventOutcome::Failed {
        error: HOSTILE.to_owned(),
    };
    let list = vec![event(EventOutcome::Done), event(failed)];
    let table = |events: &[Event]| events::table(events, None);
    let text = output(Format::Table).list_text("events", &list, table).unwrap();
    assert!(!text.contains(OBEYED), "{text:?}");
    assert_eq!(
        text.lines().count(),
        3,
        "a head, and a line for each event: {text}"
    );
    assert_eq!(text.matches(SHOWN).count(), 5, "{text}");
    for event in &list {
        let line = events::line(event, output(Format::Table)).unwrap();
        assert!(!line.contains(OBEYED) && !line.contains('\n'), "{line:?}");
        assert!(line.contains(&format!("  {SHOWN}  ")), "{line}");
        let line = events::line(event, output(Format::Json)).unwrap();
        assert!(!line.contains(OBEYED) && !line.contains('\n'), "{line:?}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), *event);
        let document = events::line(event, output(Format::Yaml)).unwrap();
        assert!(!document.contains(OBEYED), "{document:?}");
    }
}

#[test]
fn hostile_words_of_members_are_shown_as_text() {
    let mut list = status().node.members.known().unwrap().clone();
    list.members[0].name = HOSTILE.to_owned();
    list.members[1].peer_urls = vec![HOSTILE.to_owned(), "https://n2:2380".to_owned()];
    list.members[2].client_urls = vec![HOSTILE.to_owned()];
    let text = output(Format::Table).text(&list, members::render).unwrap();
    assert!(!text.contains(OBEYED), "{text:?}");
    assert_eq!(
        text.lines().count(),
        6,
        "a head, three members, the cluster: {text}"
    );
    assert_eq!(text.matches(SHOWN).count(), 3, "{text}");
    for format in [Format::Json, Format::Yaml] {
        let text = output(format).text(&list, members::render).unwrap();
        assert!(!text.contains(OBEYED), "{format:?}: {text:?}");
    }
}

#[test]
fn more_columns_and_colours() {
    let status = status();
    insta::assert_snapshot!("wide", shown(&status, Form::Wide).unwrap());
    let table = shown(&status, Form::Table).unwrap();
    let colours = painted(&table, &status);
    assert!(colours.starts_with("\u{1b}[32mn1 leader of prod"), "{colours:?}");
    assert!(colours.contains("\u{1b}[1mNODE"), "{colours:?}");
    let mut plain = String::new();
    for (number, part) in colours.split('\u{1b}').enumerate() {
        plain.push_str(if number == 0 {
            part
        } else {
            part.split_once('m').unwrap().1
        });
    }
    assert_eq!(plain, table, "colours change no text");
    let yaml = shown(&status, Form::Yaml).unwrap();
    assert!(
        yaml.starts_with("schema: 1\nhealth: healthy\nproblems: []\n"),
        "{yaml}"
    );
}

#[test]
fn a_dry_run_of_a_node_that_waits_does_not_contradict_itself() {
    let change = DirectiveChange::Restart {
        nodes: [name("n2")].into(),
    };
    let view = DirectiveView {
        directives: Directives::default(),
        changed: false,
        steps: crate::plan::steps(&change),
        decision: Some(super::fixture::decision("n1 of prod: n2 restarts next")),
    };
    let text = direct::render(&view);
    assert!(
        text.contains("restarted on n2") && !text.contains("Nothing to do now"),
        "{text}"
    );
}

/// The looks that a watch prints until the third, with an agent that is silent at the second.
async fn watched(form: Form, redraw: bool) -> Vec<String> {
    let looks = Arc::new(AtomicUsize::new(0));
    let answer = move || {
        let look = looks.fetch_add(1, Ordering::SeqCst);
        async move {
            if look == 1 {
                let error = "the agent is starting".to_owned();
                return Err((StatusCode::SERVICE_UNAVAILABLE, Json(ApiError { error })));
            }
            Ok(Json(status()))
        }
    };
    let (_root, client) = serve(Router::new().route("/v1/status", get(answer)));
    let watch = Watch {
        every: Duration::from_millis(1),
        form,
        redraw,
    };
    let mut printed = Vec::new();
    let print = |text: &str| {
        if !text.ends_with("[2J\u{1b}[H") {
            printed.push(text.to_owned());
        }
        Ok(printed.len() < 3)
    };
    let ended = watch
        .until(&client, std::future::pending(), print, || false)
        .await;
    assert_eq!(ended, Ok(Exit::Ok), "a closed pipe is a clean end");
    printed
}

#[tokio::test]
async fn a_watch_goes_on_while_the_agent_is_away() {
    let lines = watched(Form::Table, false).await;
    assert!(
        lines[0].contains("Z  healthy  n1 leader of prod") && !lines[0].contains('\n'),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("the agent is starting"), "{lines:?}");
    assert!(lines[2].contains("healthy"), "{lines:?}");
    let screens = watched(Form::Wide, true).await;
    assert!(
        screens.iter().all(|screen| screen.starts_with("\u{1b}[H")),
        "{screens:?}"
    );
    assert!(screens[0].contains("CERTIFICATE") && screens[1].contains("the agent is starting"));
    for line in watched(Form::Json, false).await {
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            value["health"] == "healthy" || value["error"] == "the agent is starting",
            "{line}"
        );
    }
    let documents = watched(Form::Yaml, false).await;
    assert!(
        documents.iter().all(|document| document.starts_with("---\n")),
        "{documents:?}"
    );
}

#[tokio::test]
async fn a_watch_ends_on_request_or_when_nobody_reads() {
    let (_root, client) = serve(Router::new().route("/v1/status", get(|| async { Json(status()) })));
    let watch = Watch {
        every: Duration::from_hours(1),
        form: Form::Table,
        redraw: false,
    };
    let stopped = watch.until(&client, async {}, |_| Ok(true), || false).await;
    assert_eq!(stopped, Ok(Exit::Ok));
    let unread = watch
        .until(&client, std::future::pending(), |_| Ok(true), || true)
        .await;
    assert_eq!(unread, Ok(Exit::Ok));
}
