//! `backup delete`, `backup keep` and `backup annotate` against an agent, and `backup now --note`.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;

use super::{fixture, socket};
use crate::cli::{Cli, Client, Exit, Failure, Verb, backup, dispatch};
use crate::model::*;

/// What the agent was asked.
type Asked = Arc<Mutex<Vec<BackupOrder>>>;

/// An agent that answers orders with this status.
fn agent(status: StatusCode) -> (tempfile::TempDir, Client, Asked) {
    let asked = Asked::default();
    let orders = Arc::clone(&asked);
    let change = move |Json(order): Json<BackupOrder>| {
        orders.lock().unwrap().push(order.clone());
        async move {
            if status != StatusCode::OK {
                let error = "because".to_owned();
                return Err((status, Json(ApiError { error })));
            }
            Ok(Json(BackupChangeView {
                backup: order.backup,
                changed: !order.dry_run,
                message: "done".to_owned(),
            }))
        }
    };
    let router = Router::new().route("/v1/backups/change", post(change)).route(
        "/v1/backups/point",
        get(|| async {
            let mut point = fixture::backups().remove(1);
            point.id = BackupId::new(format!("{}.r81300", point.id)).unwrap();
            Json(point)
        }),
    );
    let (root, client) = socket::serve(router);
    (root, client, asked)
}

async fn run(client: &Client, words: &[&str]) -> Result<Exit, Failure> {
    let line = ["etcd-agent", "backup"].into_iter().chain(words.iter().copied());
    match Cli::try_parse_from(line).unwrap().verb {
        Verb::Backup(backup::BackupVerb::Change(verb)) => crate::cli::backup_change::run(client, verb).await,
        other => panic!("{other:?}"),
    }
}

const ID: &str = "2026-03-01T12:00:00Z-000003";

#[tokio::test]
async fn an_order_is_what_was_typed() {
    let (_root, client, asked) = agent(StatusCode::OK);
    let text = |text: &str| Some(text.to_owned());
    for (words, change, dry_run) in [
        (&["delete", ID, "--yes"][..], BackupChange::Delete, false),
        (&["delete", ID, "--dry-run"], BackupChange::Delete, true),
        (&["keep", ID], BackupChange::Keep { reason: None }, false),
        // The full backup of the point that `restore latest` restores.
        (
            &["keep", "latest", "--reason", "audit"],
            BackupChange::Keep {
                reason: text("audit"),
            },
            false,
        ),
        (&["keep", ID, "--undo", "--dry-run"], BackupChange::Release, true),
        (
            &["annotate", ID, "two words"],
            BackupChange::Annotate {
                text: text("two words"),
            },
            false,
        ),
        (
            &["annotate", "latest", "--remove"],
            BackupChange::Annotate { text: None },
            false,
        ),
    ] {
        assert_eq!(run(&client, words).await, Ok(Exit::Ok), "{words:?}");
        let order = asked.lock().unwrap().pop().unwrap();
        let expected = BackupOrder {
            backup: BackupId::new(ID).unwrap(),
            change,
            dry_run,
        };
        assert_eq!(order, expected, "{words:?}");
    }
}

#[tokio::test]
async fn a_refusal_and_a_failure_have_their_exit_codes() {
    for (status, exit) in [
        (StatusCode::BAD_REQUEST, Exit::Refused),
        (StatusCode::BAD_GATEWAY, Exit::Failed),
        (StatusCode::SERVICE_UNAVAILABLE, Exit::Unreachable),
    ] {
        let (_root, client, _) = agent(status);
        for words in [
            &["delete", ID, "--yes"][..],
            &["keep", ID],
            &["annotate", ID, "x"],
        ] {
            assert_eq!(run(&client, words).await.unwrap_err().exit, exit, "{words:?}");
        }
    }
    let (_root, client, asked) = agent(StatusCode::OK);
    for words in [&["delete", "no name", "--yes"][..], &["keep", "no/name"]] {
        assert_eq!(
            run(&client, words).await.unwrap_err().exit,
            Exit::Usage,
            "{words:?}"
        );
    }
    assert_eq!(*asked.lock().unwrap(), []);
}

/// An agent that answers about each backup on its own.
fn picky() -> (tempfile::TempDir, Client, Asked) {
    let asked = Asked::default();
    let orders = Arc::clone(&asked);
    let change = move |Json(order): Json<BackupOrder>| {
        orders.lock().unwrap().push(order.clone());
        async move {
            let no = |status, error: &str| {
                let error = error.to_owned();
                Err((status, Json(ApiError { error })))
            };
            match order.backup.as_str() {
                NEWEST => no(StatusCode::BAD_REQUEST, "it is the newest one"),
                BROKEN => no(StatusCode::BAD_GATEWAY, "403"),
                name => Ok(Json(BackupChangeView {
                    changed: name == ID && !order.dry_run,
                    backup: order.backup,
                    message: "done".to_owned(),
                })),
            }
        }
    };
    let (root, client) = socket::serve(Router::new().route("/v1/backups/change", post(change)));
    (root, client, asked)
}

const GONE: &str = "2026-03-01T10:00:00Z-000001";
const NEWEST: &str = "2026-03-01T13:00:00Z-000004";
const BROKEN: &str = "2026-03-01T09:00:00Z-000000";

#[tokio::test]
async fn each_of_several_is_answered() {
    type Row<'a> = (&'a [&'a str], Option<Exit>, &'a [&'a str]);
    let (_root, client, asked) = picky();
    let rows: [Row<'_>; 3] = [
        (&[ID, GONE], None, &[]),
        (&[NEWEST, ID, GONE], Some(Exit::Refused), &[NEWEST]),
        (&[NEWEST, BROKEN, ID], Some(Exit::Failed), &[NEWEST, BROKEN]),
    ];
    for (names, exit, texts) in rows {
        asked.lock().unwrap().clear();
        let mut words = vec!["delete"];
        words.extend(names);
        words.extend(["--yes", "-o", "json"]);
        let ended = run(&client, &words).await;
        let given: Vec<String> = asked
            .lock()
            .unwrap()
            .iter()
            .map(|order| order.backup.to_string())
            .collect();
        assert_eq!(given, names, "a refusal ends nothing");
        let Some(exit) = exit else {
            assert_eq!(ended, Ok(Exit::Ok), "{names:?}");
            continue;
        };
        let failure = ended.unwrap_err();
        assert_eq!(failure.exit, exit, "{failure}");
        let lines: Vec<&str> = failure.text.lines().collect();
        assert_eq!(lines.len(), texts.len(), "{failure}");
        for (line, name) in lines.iter().zip(texts) {
            assert!(line.starts_with(&format!("{name}: ")), "{line}");
        }
    }
    // A name that is none is refused before anything is deleted.
    asked.lock().unwrap().clear();
    let refused = run(&client, &["delete", ID, "no name", "--yes"])
        .await
        .unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    assert_eq!(*asked.lock().unwrap(), []);
}

/// What the agent of this node answers, and what it passes on from another node.
#[test]
fn the_backup_that_was_taken_is_found_in_the_answer() {
    for message in [
        format!("{ID} (revision 7)"),
        format!("n2: {ID} (revision 7)"),
        format!("n2: {ID} (revision 7) (up to 28 s ago: it did not answer meanwhile)"),
    ] {
        assert_eq!(backup::named_in(&message).unwrap().as_str(), ID, "{message}");
    }
    let failed = backup::named_in("n2: done").unwrap_err();
    assert!(
        failed.exit == Exit::Failed && failed.text.contains("n2: done"),
        "{failed}"
    );
}

/// An agent that has taken a backup on another node, and answers orders with this status.
fn taking(status: StatusCode) -> (tempfile::TempDir, Asked) {
    let asked = Asked::default();
    let orders = Arc::clone(&asked);
    let view = |request| RequestView {
        id: 1,
        request,
        state: RequestState::Done,
        message: format!("n2: {ID} (revision 7)"),
        changed: true,
    };
    let change = move |Json(order): Json<BackupOrder>| {
        orders.lock().unwrap().push(order.clone());
        async move {
            let error = "because".to_owned();
            if status != StatusCode::OK {
                return Err((status, Json(ApiError { error })));
            }
            Ok(Json(BackupChangeView {
                backup: order.backup,
                changed: true,
                message: "noted".to_owned(),
            }))
        }
    };
    let router = Router::new().route("/v1/backups/change", post(change)).route(
        "/v1/requests",
        post(move |Json(request): Json<OperatorRequest>| async move { Json(view(request)) }),
    );
    let (root, _) = socket::serve(router);
    (root, asked)
}

#[tokio::test]
async fn a_backup_is_taken_with_a_note() {
    let line = ["etcd-agent", "backup", "now", "--note", "before the upgrade"];
    for (status, exit) in [
        (StatusCode::OK, None),
        (StatusCode::BAD_REQUEST, Some(Exit::Refused)),
    ] {
        let (root, asked) = taking(status);
        let paths = crate::paths::Paths::below(root.path());
        let ended = Box::pin(dispatch(&paths, Cli::try_parse_from(line).unwrap().verb)).await;
        let order = asked.lock().unwrap().pop().unwrap();
        let text = Some("before the upgrade".to_owned());
        assert_eq!(order.backup.as_str(), ID);
        assert_eq!(order.change, BackupChange::Annotate { text });
        match exit {
            None => assert_eq!(ended, Ok(Exit::Ok)),
            Some(exit) => {
                let failure = ended.unwrap_err();
                assert_eq!(failure.exit, exit);
                assert!(
                    failure.text.contains("is taken, and has no note: because"),
                    "{failure}"
                );
            }
        }
    }
}
