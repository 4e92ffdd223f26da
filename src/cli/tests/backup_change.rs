//! `backup delete`, `backup keep` and `backup annotate` against an agent.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;

use super::{fixture, socket};
use crate::cli::{Cli, Client, Exit, Failure, Verb, backup};
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
