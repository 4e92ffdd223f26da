//! `ok-to-stop`: its text and its exit codes.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;
use std::collections::HashMap;
use tempfile::TempDir;

use super::fixture::{self, name};
use super::socket::serve;
use crate::cli::{Cli, Exit, Failure, dispatch, ok_to_stop};
use crate::model::*;
use crate::paths::Paths;

/// What the agent answers while n2 is up, or down.
fn verdict(node: &str, n2_is_up: bool) -> StopVerdict {
    let mut seen = fixture::observation_of_an_epoch();
    if !n2_is_up {
        let silent = Fact::Unreachable("no route to host".to_owned());
        seen.peers.insert(name("n2"), silent);
    }
    crate::plan::ok_to_stop(&seen, &name(node))
}

/// An agent on n1 that answers with [`verdict`].
fn agent(n2_is_up: bool) -> (TempDir, Paths) {
    let answer = move |Query(query): Query<HashMap<String, String>>| async move {
        Json(verdict(query.get("node").unwrap(), n2_is_up))
    };
    let router = Router::new()
        .route("/v1/status", get(|| async { Json(fixture::status()) }))
        .route("/v1/ok-to-stop", get(answer));
    let (root, _) = serve(router);
    let paths = Paths::below(root.path());
    (root, paths)
}

async fn run(paths: &Paths, line: &[&str]) -> Result<Exit, Failure> {
    let words = ["etcd-agent"].iter().chain(line);
    Box::pin(dispatch(paths, Cli::try_parse_from(words).unwrap().verb)).await
}

#[test]
fn the_first_line_is_the_verdict() {
    insta::assert_snapshot!("yes", ok_to_stop::render(&verdict("n1", true)));
    insta::assert_snapshot!("no", ok_to_stop::render(&verdict("n3", false)));
}

#[test]
fn programs_get_codes_and_numbers() {
    let json = serde_json::to_value(verdict("n3", false)).unwrap();
    assert_eq!(json["node"], "n3");
    assert_eq!(json["ok"], false);
    let codes: Vec<&str> = json["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["too-few-healthy", "agent-silent"]);
    assert_eq!(json["left"]["healthy"], 1);
    assert_eq!(json["left"]["quorum"], 2);
    let yes = serde_json::to_value(verdict("n3", true)).unwrap();
    assert_eq!(
        yes["left"]["further_faults"],
        serde_json::json!([{"node": "n1", "tolerated": false}, {"node": "n2", "tolerated": false}])
    );
}

#[tokio::test]
async fn the_exit_code_is_the_answer() {
    let (_well, well) = agent(true);
    assert_eq!(run(&well, &["ok-to-stop"]).await, Ok(Exit::Ok));
    assert_eq!(
        run(&well, &["ok-to-stop", "n3", "-o", "json"]).await,
        Ok(Exit::Ok)
    );
    let (_ill, ill) = agent(false);
    assert_eq!(run(&ill, &["ok-to-stop", "n3"]).await, Ok(Exit::Refused));
    let json = ["ok-to-stop", "n2", "-o", "json"];
    assert_eq!(run(&ill, &json).await, Ok(Exit::Refused));
    let unknown = run(&well, &["ok-to-stop", "n9"]).await.unwrap_err();
    assert_eq!(unknown.exit, Exit::Usage);
    assert!(unknown.text.contains("n1, n2, n3"), "{unknown}");
    let nobody = tempfile::tempdir().unwrap();
    let silent = run(&Paths::below(nobody.path()), &["ok-to-stop"]).await;
    assert_eq!(silent.unwrap_err().exit, Exit::Unreachable);
}

#[tokio::test]
async fn an_agent_that_does_not_look_in_time_is_no_yes() {
    let busy = || async {
        let error = "the agent on n1 has not looked again within 7 s".to_owned();
        (StatusCode::SERVICE_UNAVAILABLE, Json(ApiError { error }))
    };
    let router = Router::new()
        .route("/v1/status", get(|| async { Json(fixture::status()) }))
        .route("/v1/ok-to-stop", get(busy));
    let (root, _) = serve(router);
    let failed = run(&Paths::below(root.path()), &["ok-to-stop"])
        .await
        .unwrap_err();
    assert_eq!(failed.exit, Exit::Unreachable);
    assert!(failed.text.contains("has not looked again"), "{failed}");
}
