//! The client against a real Unix socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use tempfile::TempDir;
use tokio::net::UnixListener;

use super::fixture;
use crate::cli::progress::Progress;
use crate::cli::wait::{self, Deadline};
use crate::cli::{CallError, Client, Exit, Failure};
use crate::model::*;
use crate::paths::Paths;

fn serve(router: Router) -> (TempDir, Client) {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::below(root.path());
    std::fs::create_dir_all(paths.run()).unwrap();
    let listener = UnixListener::bind(paths.admin_socket()).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (root, Client::new(&paths))
}

fn view(id: u64, state: RequestState, message: &str) -> RequestView {
    RequestView {
        id,
        request: OperatorRequest::Backup,
        state,
        message: message.to_owned(),
    }
}

fn exit<T>(result: Result<T, CallError>) -> Exit {
    result.err().map_or(Exit::Ok, |error| Failure::from(error).exit)
}

#[tokio::test]
async fn errors_become_exit_codes() {
    let refused = |status: StatusCode| async move {
        (
            status,
            Json(ApiError {
                error: "because".to_owned(),
            }),
        )
    };
    let router = Router::new()
        .route("/v1/status", get(|| async { Json(fixture::status()) }))
        .route(
            "/unavailable",
            get(move || refused(StatusCode::SERVICE_UNAVAILABLE)),
        )
        .route("/refused", get(move || refused(StatusCode::CONFLICT)))
        .route("/broken", get(|| async { "no JSON" }))
        .route("/large", get(|| async { "x".repeat(9 << 20) }));
    let (_root, client) = serve(router);
    let status: AdminStatus = client.get("/v1/status").await.unwrap();
    assert_eq!(status, fixture::status());
    assert_eq!(
        exit(client.get::<AdminStatus>("/unavailable").await),
        Exit::Unreachable
    );
    let refused = client.get::<AdminStatus>("/refused").await.unwrap_err();
    assert_eq!(refused.to_string(), "because");
    assert_eq!(Failure::from(refused).exit, Exit::Refused);
    for path in ["/broken", "/large", "/missing"] {
        assert_eq!(
            exit(client.get::<AdminStatus>(path).await),
            Exit::Failed,
            "{path}"
        );
    }
}

#[tokio::test]
async fn no_socket_says_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let error = Client::new(&Paths::below(root.path()))
        .get::<AdminStatus>("/v1/status")
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("systemctl status etcd-agent"),
        "{error}"
    );
    assert_eq!(Failure::from(error).exit, Exit::Unreachable);
}

#[tokio::test]
async fn a_request_is_followed_to_its_end() {
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    let router = Router::new()
        .route(
            "/v1/requests",
            post(|Json(_): Json<OperatorRequest>| async { Json(view(3, RequestState::Pending, "begun")) }),
        )
        .route(
            "/v1/requests/{id}",
            get(move |Path(id): Path<u64>| {
                let look = count.fetch_add(1, Ordering::SeqCst);
                async move {
                    Json(match look {
                        0 => view(id, RequestState::Pending, "half way"),
                        _ => view(id, RequestState::Done, "backup x committed"),
                    })
                }
            }),
        );
    let (_root, client) = serve(router);
    let deadline = Deadline::after(Duration::from_secs(20));
    let begun = wait::submit(&client, &OperatorRequest::Backup).await.unwrap();
    let done = wait::done(&client, begun, &deadline, &mut Progress::new())
        .await
        .unwrap();
    assert_eq!(done.message, "backup x committed");
    assert_eq!(looks.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_failed_a_forgotten_and_an_endless_request() {
    let router = Router::new().route(
        "/v1/requests/{id}",
        get(|Path(id): Path<u64>| async move {
            match id {
                1 => Ok(Json(view(1, RequestState::Failed, "no leader"))),
                2 => Ok(Json(view(2, RequestState::Pending, "still at it"))),
                _ => Err(StatusCode::NOT_FOUND),
            }
        }),
    );
    let (_root, client) = serve(router);
    for (id, limit, expected) in [
        (1, 20, Exit::Failed),
        (2, 1, Exit::TimedOut),
        (3, 20, Exit::Failed),
    ] {
        let deadline = Deadline::after(Duration::from_secs(limit));
        let begun = view(id, RequestState::Pending, "begun");
        let failure = wait::done(&client, begun, &deadline, &mut Progress::new())
            .await
            .unwrap_err();
        assert_eq!(failure.exit, expected, "{id}: {failure}");
    }
}

#[tokio::test]
async fn a_new_epoch_is_waited_for_even_when_the_agent_forgets() {
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    let router = Router::new().route(
        "/v1/status",
        get(move || {
            let look = count.fetch_add(1, Ordering::SeqCst);
            async move {
                let mut status = fixture::status();
                if look > 0 {
                    let next = |node: &mut NodeStatus| {
                        if let Some(assignment) = &mut node.assignment {
                            assignment.epoch = Epoch(2);
                        }
                    };
                    next(&mut status.node);
                    for peer in status.peers.values_mut() {
                        if let Fact::Known(peer) = peer {
                            next(peer);
                        }
                    }
                }
                Json(status)
            }
        }),
    );
    let (_root, client) = serve(router);
    let deadline = Deadline::after(Duration::from_secs(20));
    let begun = view(9, RequestState::Pending, "begun");
    let mut progress = Progress::new();
    let status = wait::epoch_after(&client, begun, Epoch(1), 3, &deadline, &mut progress)
        .await
        .unwrap();
    assert_eq!(status.node.assignment.unwrap().epoch, Epoch(2));
    assert_eq!(looks.load(Ordering::SeqCst), 2);
}
