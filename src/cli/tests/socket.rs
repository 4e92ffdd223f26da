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

pub(super) fn serve(router: Router) -> (TempDir, Client) {
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
        changed: true,
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

/// The paths of an agent that serves, and a count of the requests to it.
fn counted(router: Router) -> (TempDir, Paths, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let router = router.layer(axum::middleware::map_request(
        move |request: axum::extract::Request| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { request }
        },
    ));
    let (root, _) = serve(router);
    let paths = Paths::below(root.path());
    (root, paths, asked)
}

fn restore_args(line: &str) -> crate::cli::restore::RestoreArgs {
    use clap::Parser;
    let words = ["etcd-agent", "restore"].into_iter().chain(line.split(' '));
    match crate::cli::Cli::parse_from(words).verb {
        crate::cli::Verb::Restore(args) => args,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b04_nothing_is_restored_before_the_agent_has_looked_at_the_cluster() {
    let status = || async {
        let mut seen = fixture::status();
        seen.starting = true;
        Json(seen)
    };
    let (_root, paths, asked) = counted(Router::new().route("/v1/status", get(status)));
    let refused = crate::cli::restore::restore_at(&paths, restore_args("latest --yes"), false).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.exit, Exit::Refused, "{refused}");
    assert!(refused.text.contains("has just started"), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "only the status is asked for");
}

/// Right after a reload, or when it is cut off from its peers, an agent sees no member serve in a cluster
/// that is alive.
#[tokio::test]
async fn b04_without_a_terminal_a_restore_needs_yes_and_asks_nothing_before() {
    let router = Router::new()
        .route(
            "/v1/status",
            get(|| async {
                let mut seen = fixture::status();
                seen.node.etcd = Fact::Unreachable("not looked at yet".to_owned());
                for peer in seen.peers.values_mut() {
                    *peer = Fact::Unreachable("cut off".to_owned());
                }
                Json(seen)
            }),
        )
        .route(
            "/v1/backups/point",
            get(|| async { Json(fixture::backups().remove(0)) }),
        )
        .route(
            "/v1/preview",
            post(|| async {
                Json(DirectiveView {
                    directives: Directives::default(),
                    changed: false,
                    steps: Vec::new(),
                    decision: None,
                })
            }),
        )
        .route(
            "/v1/requests",
            post(|| async { Json(view(7, RequestState::Failed, "asked for")) }),
        )
        .route(
            "/v1/requests/{id}",
            get(|| async { Json(view(7, RequestState::Failed, "asked for")) }),
        );
    let (_root, paths, asked) = counted(router);
    let refused = crate::cli::restore::restore_at(&paths, restore_args("latest"), false).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.exit, Exit::Refused, "{refused}");
    assert!(refused.text.contains("--yes"), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "it has asked the agent");
    let args = restore_args("latest --dry-run");
    let shown = crate::cli::restore::restore_at(&paths, args, false).await;
    assert_eq!(shown, Ok(Exit::Ok));
    let args = restore_args("latest --yes");
    let begun = crate::cli::restore::restore_at(&paths, args, false).await;
    assert_eq!(begun.unwrap_err().text, "asked for");
}

/// 10,000 backups, which the agent lists in pages. A restore does not fetch the list.
#[tokio::test]
async fn b05_a_store_of_ten_thousand_is_listed_and_restored_from() {
    const ALL: usize = 10_000;
    const PAGE: usize = 2000;
    let name = |n: usize| BackupId::new(format!("2026-03-01T{:02}:{:02}:00Z-{n:06}", n / 600, n / 10 % 60));
    let name = move |n: usize| name(n).unwrap();
    let listed = move |n: usize| {
        ListedBackup::Readable(Box::new(StoredBackup {
            summary: BackupSummary {
                id: name(n),
                at: UnixMs(n as u64),
                revision: Revision(n as u64),
                size_bytes: 1,
            },
            writer: Writer::EtcdAgent,
            // A long verification result.
            verified: Some(Verified {
                at: UnixMs(1),
                problems: vec!["x".repeat(1000)],
            }),
            verify_unreadable: None,
            epoch: None,
            timeline: None,
            went_back: None,
            revision_at_most: None,
            covered: Revision(1),
            marks: Marks::default(),
        }))
    };
    let page = move |query: axum::extract::RawQuery| async move {
        let after = query.0.and_then(|q| q.strip_prefix("after=").map(str::to_owned));
        let after = after.and_then(|id| id.rsplit_once('-')?.1.parse::<usize>().ok());
        let from = after.map_or(0, |after| after + 1);
        let until = (from + PAGE).min(ALL);
        Json(Page {
            items: (from..until).map(listed).collect(),
            next: (until < ALL).then(|| name(until - 1)),
        })
    };
    let point = |query: axum::extract::RawQuery| async move {
        let mut found = fixture::backups().remove(0);
        let named = query.0.unwrap_or_default();
        assert!(
            ["", "full=true&backup=2026-03-01T11:00:00Z-000002"].contains(&named.as_str()),
            "{named}"
        );
        found.size_bytes = 1;
        Json(found)
    };
    let router = Router::new()
        .route("/v1/backups", get(page))
        .route("/v1/backups/point", get(point))
        .route("/v1/status", get(|| async { Json(fixture::status()) }))
        .route(
            "/v1/requests",
            post(|| async { Json(view(7, RequestState::Failed, "asked for")) }),
        )
        .route(
            "/v1/requests/{id}",
            get(|| async { Json(view(7, RequestState::Failed, "asked for")) }),
        );
    let (_root, paths, asked) = counted(router);
    let all: Vec<ListedBackup> = Client::new(&paths).all("/v1/backups").await.unwrap();
    assert_eq!(all.len(), ALL);
    assert_eq!(all[ALL - 1].id(), &name(ALL - 1));
    assert_eq!(asked.load(Ordering::SeqCst), ALL / PAGE);
    for line in ["latest --yes", "2026-03-01T11:00:00Z-000002 --yes"] {
        asked.store(0, Ordering::SeqCst);
        let begun = crate::cli::restore::restore_at(&paths, restore_args(line), false).await;
        assert_eq!(begun.unwrap_err().text, "asked for", "{line}");
        // The status, the point, the request and its result.
        assert_eq!(asked.load(Ordering::SeqCst), 4, "{line}");
    }
}

#[tokio::test]
async fn b05_b11_the_store_has_as_long_as_a_person_gives_it_and_is_not_the_agent() {
    let router = Router::new()
        .route(
            "/never",
            get(|| async {
                std::future::pending::<()>().await;
                ""
            }),
        )
        .route(
            "/store",
            get(|| async {
                let error = "s3://backups: NoSuchBucket".to_owned();
                (StatusCode::BAD_GATEWAY, Json(ApiError { error }))
            }),
        );
    let (_root, client) = serve(router);
    let short = client.within(Duration::from_millis(50));
    let late = short.get::<AdminStatus>("/never").await.unwrap_err();
    assert!(late.to_string().contains("no answer within 50ms"), "{late}");
    assert_eq!(Failure::from(late).exit, Exit::TimedOut);
    assert_eq!(exit(client.get::<AdminStatus>("/store").await), Exit::Failed);
}

#[tokio::test]
async fn b16_one_verification_that_takes_too_long_does_not_keep_the_others_from_theirs() {
    let verified = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&verified);
    let page = || async {
        let unreadable = |id: &str| ListedBackup::Unreadable {
            id: BackupId::new(id).unwrap(),
            unreadable: "x".to_owned(),
        };
        Json(Page {
            items: vec![unreadable("a"), unreadable("b"), unreadable("c")],
            next: None,
        })
    };
    let router = Router::new()
        .route("/v1/backups", get(page))
        .route(
            "/v1/requests",
            post(move || {
                let number = count.fetch_add(1, Ordering::SeqCst);
                async move { Json(view(number as u64, RequestState::Pending, "begun")) }
            }),
        )
        .route(
            "/v1/requests/{id}",
            get(|Path(id): Path<u64>| async move {
                // The first never ends.
                let state = if id == 0 {
                    RequestState::Pending
                } else {
                    RequestState::Done
                };
                Json(view(id, state, "looked at"))
            }),
        );
    let (_root, client) = serve(router);
    let args = {
        use clap::Parser;
        let line = ["etcd-agent", "backup", "verify", "--all", "--timeout", "1s"];
        match crate::cli::Cli::parse_from(line).verb {
            crate::cli::Verb::Backup(args) => args,
            other => panic!("{other:?}"),
        }
    };
    let ended = args.verified_by(&client).await.unwrap_err();
    assert_eq!(ended.exit, Exit::TimedOut, "{ended}");
    assert_eq!(verified.load(Ordering::SeqCst), 3);
}

#[test]
fn b16_a_time_that_no_clock_counts_to_is_refused() {
    use clap::Parser;
    for verb in [
        "restore latest --yes",
        "init",
        "backup now",
        "backup list",
        "pause",
        "reload",
    ] {
        let words = ["etcd-agent"].into_iter().chain(verb.split(' '));
        let long = words.clone().chain(["--timeout", "500000000000y"]);
        assert!(crate::cli::Cli::try_parse_from(long).is_err(), "{verb}");
        let well = words.chain(["--timeout", "90d"]);
        assert!(crate::cli::Cli::try_parse_from(well).is_ok(), "{verb}");
    }
}
