//! What is so already is no error, and nothing is changed.

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;
use tempfile::TempDir;

use super::fixture::{self, name, observation_of_an_epoch, status};
use super::socket::serve;
use crate::cli::bootstrapped::{Opened, is_formed};
use crate::cli::{Cli, Exit, Failure, commands, dispatch, reload, spec};
use crate::model::*;
use crate::paths::Paths;

async fn run(paths: &Paths, line: &str) -> Result<Exit, Failure> {
    let words = ["etcd-agent"].into_iter().chain(line.split(' '));
    Box::pin(dispatch(paths, Cli::try_parse_from(words).unwrap().verb)).await
}

fn agent(router: Router) -> (TempDir, Paths) {
    let (root, _) = serve(router);
    let paths = Paths::below(root.path());
    (root, paths)
}

/// A cluster of three that serves in the first epoch, of which all know the record.
fn formed() -> AdminStatus {
    let mut seen = status();
    let mut genesis = observation_of_an_epoch().me.genesis;
    if let Some(genesis) = &mut genesis {
        genesis.members = ["n1", "n2", "n3"].map(|node| (name(node), Vec::new())).into();
    }
    for peer in seen.peers.values_mut() {
        if let Fact::Known(peer) = peer {
            peer.genesis.clone_from(&genesis);
        }
    }
    seen.node.genesis = genesis;
    seen
}

fn genesis(seen: &mut AdminStatus) -> &mut Genesis {
    seen.node.genesis.as_mut().unwrap()
}

#[test]
fn a_cluster_was_formed_as_asked_only_if_that_is_certain() {
    type Change = fn(&mut AdminStatus);
    let rows: &[(&str, Change, &[&str], bool)] = &[
        ("empty, in the first epoch", |_| {}, &[], true),
        ("without a node that had no part", |_| {}, &["n9"], true),
        (
            "without an elector",
            |seen| {
                let incarnation = seen.node.incarnation.clone();
                genesis(seen).electorate.insert(name("n9"), incarnation);
            },
            &["n9"],
            false,
        ),
        ("without a member", |_| {}, &["n3"], false),
        (
            "from a backup",
            |seen| genesis(seen).origin = Origin::Backup(fixture::backups()[0].id.clone()),
            &[],
            false,
        ),
        (
            "from a member's data",
            |seen| genesis(seen).origin = Origin::Member(name("n1")),
            &[],
            false,
        ),
        ("a later epoch", |seen| genesis(seen).epoch = Epoch(2), &[], false),
        (
            "a later epoch is reported",
            |seen| {
                if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name("n2")) {
                    peer.newest_epoch = Epoch(2);
                }
            },
            &[],
            false,
        ),
        (
            "another one is reported",
            |seen| genesis(seen).token = "other".to_owned(),
            &[],
            false,
        ),
        (
            "its record is not known here",
            |seen| seen.node.genesis = None,
            &[],
            false,
        ),
        (
            "most members do not serve",
            |seen| {
                for peer in seen.peers.values_mut() {
                    *peer = Fact::Unreachable("no route to host".to_owned());
                }
            },
            &[],
            false,
        ),
        (
            "the agent has just started",
            |seen| seen.starting = true,
            &[],
            false,
        ),
    ];
    for (what, change, without, expected) in rows {
        let mut seen = formed();
        change(&mut seen);
        let without: Vec<NodeName> = without.iter().map(|node| name(node)).collect();
        assert_eq!(is_formed(&seen, &without), *expected, "{what}");
    }
}

#[tokio::test]
async fn bootstrap_again_orders_nothing() {
    let refuse = || async { StatusCode::IM_A_TEAPOT };
    let of = |seen: AdminStatus| {
        let router = Router::new()
            .route(
                "/v1/status",
                get(move || {
                    let seen = seen.clone();
                    async move { Json(seen) }
                }),
            )
            .route("/v1/requests", post(refuse));
        agent(router)
    };
    let (_root, paths) = of(formed());
    for line in [
        "bootstrap --empty --yes -o json",
        "bootstrap",
        "bootstrap --empty --dry-run",
        "bootstrap --without n9 --yes -o yaml",
    ] {
        assert_eq!(run(&paths, line).await, Ok(Exit::Ok), "{line}");
    }
    let opened = Opened::of(&formed(), false);
    assert_eq!((opened.changed, opened.epoch), (false, Epoch(1)));
    let mut other = formed();
    genesis(&mut other).origin = Origin::Member(name("n1"));
    let (_root, paths) = of(other);
    let refused = run(&paths, "bootstrap --empty --yes").await.unwrap_err();
    assert_eq!(refused.exit, Exit::Refused);
    assert!(
        refused.text.contains("there is a cluster already (epoch 1)"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_command_that_is_not_there_is_deleted_already() {
    let deleted = |Json(wanted): Json<CommandName>| async move {
        match wanted.name.as_str() {
            "there" => Ok(Json(wanted)),
            "no-store" => Err((
                StatusCode::BAD_GATEWAY,
                Json(ApiError {
                    error: "403".to_owned(),
                }),
            )),
            _ => Err((
                StatusCode::NOT_FOUND,
                Json(ApiError {
                    error: wanted.absent(),
                }),
            )),
        }
    };
    let (root, client) = serve(Router::new().route("/v1/commands/delete", post(deleted)));
    let named = |name: &str| CommandName {
        name: name.to_owned(),
    };
    let done = commands::delete(&client, named("there")).await.unwrap();
    assert_eq!((done.changed, done.message.as_str()), (true, "there is deleted"));
    let done = commands::delete(&client, named("gone")).await.unwrap();
    assert_eq!(
        (done.changed, done.message.as_str()),
        (false, "there is no command gone in the store")
    );
    let failed = commands::delete(&client, named("no-store")).await.unwrap_err();
    assert_eq!(failed.exit, Exit::Failed);
    let paths = Paths::below(root.path());
    let line = "etcd-manager commands delete gone -o json";
    assert_eq!(run(&paths, line).await, Ok(Exit::Ok));
    // An agent that does not have the path at all.
    let (_root, client) = serve(Router::new());
    let failed = commands::delete(&client, named("gone")).await.unwrap_err();
    assert_eq!(failed.exit, Exit::Failed, "{failed}");
}

#[test]
fn a_reload_of_the_same_files_changes_nothing() {
    let view = |in_force: Option<&str>| ReloadView {
        in_force: in_force.map(str::to_owned),
        ..ReloadView::default()
    };
    for (before, after, changed) in [
        (Some("a"), Some("a"), false),
        (Some("a"), Some("b"), true),
        (None, Some("a"), true),
        // An agent of an older version.
        (None, None, true),
    ] {
        let before = before.map(str::to_owned);
        assert_eq!(
            reload::changed(&view(after), before.as_ref()),
            changed,
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn a_request_for_what_is_so_already_is_recognized() {
    let mut node = fixture::node(1);
    node.genesis = observation_of_an_epoch().me.genesis;
    let leader = |to: Option<&str>| OperatorRequest::MoveLeader {
        to: to.map(name),
        from: None,
        id: 0,
        asked: SteadyMs(0),
    };
    let epoch = |token: &str| OperatorRequest::ConfirmEpoch {
        epoch: Epoch(1),
        token: token.to_owned(),
    };
    let lock = OperatorRequest::RebootLock {
        owner: LockOwner::Operator,
        within_ms: 1,
        asked: SteadyMs(0),
    };
    for (request, so) in [
        (leader(Some("n1")), true),
        (leader(Some("n2")), false),
        (leader(None), false),
        (epoch("prod-1-abc"), true),
        (epoch("other"), false),
        (lock.clone(), false),
        (OperatorRequest::Backup, false),
        (OperatorRequest::Prune, false),
    ] {
        assert_eq!(request.is_already_done_on(&node), so, "{request:?}");
    }
    let own = &mut node.steering.reboot_locks.own;
    own.version = 3;
    own.hold = Some(RebootHold {
        owner: LockOwner::Operator,
        since: fixture::NOW,
        grant: Grant {
            node: name("n2"),
            id: 1,
            term: RaftTerm(7),
            purpose: GrantPurpose::default(),
        },
        confirmed: true,
    });
    assert!(lock.is_already_done_on(&node));
    let mut taking = node.clone();
    taking.steering.reboot_locks.own.hold.as_mut().unwrap().confirmed = false;
    assert!(!lock.is_already_done_on(&taking), "it is not held yet");
    node.steering.directives.released.insert(name("n1"), 3);
    assert!(!lock.is_already_done_on(&node), "an operator has ended it");
}

/// An agent of an older version answers without `changed`.
#[test]
fn an_answer_without_the_field_is_a_change() {
    let text = r#"{"id":1,"request":{"request":"backup"},"state":"done","message":"x"}"#;
    let view: RequestView = serde_json::from_str(text).unwrap();
    assert!(view.changed);
}

#[test]
fn a_smaller_size_removes_members() {
    assert_eq!(spec::removes(3, 3), None);
    assert_eq!(spec::removes(3, 5), None);
    let one = spec::removes(4, 3).unwrap();
    assert!(one.contains("1 member is removed"), "{one}");
    let two = spec::removes(5, 3).unwrap();
    assert!(
        two.contains("5 voters are wanted now") && two.contains("2 members are removed"),
        "{two}"
    );
}
