//! `plan --after`: its text, and what it refuses.

use clap::Parser;

use super::fixture;
use crate::cli::{Cli, Exit, dispatch, plan_after};
use crate::paths::Paths;

fn text(fault: &str) -> String {
    let view = plan_after::suppose(&fixture::observation_of_an_epoch(), &fault.parse().unwrap()).unwrap();
    plan_after::render(&view)
}

#[test]
fn what_would_follow_from_a_fault() {
    insta::assert_snapshot!("after_reboot", text("reboot n1"));
    let first =
        plan_after::suppose(&fixture::observation_of_an_epoch(), &"stop n2".parse().unwrap()).unwrap();
    let second = plan_after::suppose(&first.observation, &"lose n1".parse().unwrap()).unwrap();
    insta::assert_snapshot!("after_two", plan_after::render(&second));
}

#[tokio::test]
async fn bad_faults_are_refused_with_what_is_accepted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serde_json::to_vec(&fixture::observation()).unwrap()).unwrap();
    let path = file.path().to_str().unwrap();
    let parse = |after: &str| {
        let line = [
            "etcd-agent",
            "plan",
            "--observation",
            path,
            "--after",
            after,
            "-o",
            "json",
        ];
        Cli::try_parse_from(line)
    };
    for bad in ["reboot", "restart n1", "n1"] {
        let refused = parse(bad).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains(bad) && said.contains("'reboot NODE'"), "{said}");
        assert_eq!(refused.exit_code(), 2);
    }
    let paths = Paths::below("/nowhere");
    let done = Box::pin(dispatch(&paths, parse("reboot n2").unwrap().verb)).await;
    assert_eq!(done, Ok(Exit::Ok), "no agent is asked");
    let unknown = Box::pin(dispatch(&paths, parse("stop n9").unwrap().verb))
        .await
        .unwrap_err();
    assert_eq!(unknown.exit, Exit::Usage);
    assert!(
        unknown.text.contains("n1, n2, n3") && unknown.text.contains("stop n9"),
        "{unknown}"
    );
}
