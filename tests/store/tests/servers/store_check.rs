//! `etcd-agent store check` against real servers.

use std::fs;
use std::process::Command;

use etcd_agent::adapters::store_check::{Found, Right, StoreReport, check_store};
use etcd_agent_store_tests::{AnyS3, Kind, agent};

fn failed(report: &StoreReport) -> Vec<Right> {
    let failed = |found: &Found| matches!(found, Found::Failed { .. });
    let rights = report.rights.iter().filter(|tried| failed(&tried.found));
    rights.map(|tried| tried.right).collect()
}

#[tokio::test]
async fn all_rights_of_an_owner_are_found_and_nothing_stays() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let mut rights = Vec::new();
        let report = check_store(&s3.settings(), |right| rights.push(right)).await;
        assert!(report.ok && report.left_behind.is_empty(), "{kind:?}: {report:?}");
        assert!(
            report.rights.iter().all(|tried| tried.found == Found::Ok),
            "{report:?}"
        );
        assert_eq!(rights, Right::ALL);
        assert_eq!(s3.store().list("").await.unwrap(), [], "{kind:?}");
    }
}

/// If one right is missing, the report names it, with the action that a policy must allow.
#[tokio::test]
async fn the_right_that_is_missing_is_named() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let settings = s3.nobody();
    let all = [
        "s3:ListBucket",
        "s3:PutObject",
        "s3:GetObject",
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
    ];
    s3.allow(&all).await;
    let report = check_store(&settings, |_| ()).await;
    assert!(report.ok, "{report:?}");

    for (missing, expected) in [
        (all[0], &[Right::List][..]),
        (all[1], &[Right::Write, Right::Upload, Right::Abort]),
        (all[2], &[Right::Read, Right::ReadRange]),
        (all[3], &[Right::Abort]),
        (all[4], &[Right::Delete]),
    ] {
        let rest: Vec<&str> = all.iter().filter(|action| **action != missing).copied().collect();
        s3.allow(&rest).await;
        let report = check_store(&settings, |_| ()).await;
        assert!(!report.ok);
        let found = failed(&report);
        assert!(found.contains(&expected[0]), "without {missing}: {report:?}");
        assert!(
            found.iter().all(|right| expected.contains(right)),
            "without {missing}: {report:?}"
        );
        let tried = report
            .rights
            .iter()
            .find(|tried| tried.right == expected[0])
            .unwrap();
        let Found::Failed { error, advice } = &tried.found else {
            panic!("{tried:?}")
        };
        assert!(error.contains("AccessDenied"), "{error}");
        let advice = advice.as_ref().expect("advice");
        assert!(
            advice.contains(missing) && advice.contains("etcd/prod/*"),
            "{advice}"
        );
        assert!(!error.contains("agentsecret"));
        assert_eq!(report.left_behind.is_empty(), missing != all[4], "{report:?}");
        s3.allow(&all).await;
        for left in &report.left_behind {
            s3.store().delete(left).await.unwrap();
        }
        assert_eq!(s3.store().list("").await.unwrap(), []);
    }
}

#[tokio::test]
async fn one_answer_is_enough_where_nothing_works() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let settings = s3.settings_of(s3.address(), "labaccess", "wrong-secret");
    let report = check_store(&settings, |_| ()).await;
    assert_eq!(failed(&report), [Right::List, Right::Write]);
    let text = format!("{report:?}");
    assert!(text.contains("check the access key and its secret"), "{text}");
    assert!(!text.contains("wrong-secret"));
}

/// Tests the command: exit codes, progress on standard error, JSON on standard output.
#[tokio::test]
async fn the_command_says_it_in_words_and_in_json() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let root = s3.dir().join("root");
    let config = root.join("etc/etcd-agent");
    fs::create_dir_all(&config).unwrap();
    let write = |settings: &etcd_agent::config::StoreSettings| {
        let text = format!(
            "[store]\nurl = \"s3://backups/etcd/prod\"\nendpoint = {:?}\npath_style = true\ncredentials_file = {:?}\n",
            settings.endpoint.as_ref().unwrap(),
            settings.credentials_file.as_ref().unwrap()
        );
        fs::write(config.join("config.toml"), text).unwrap();
    };
    let run = |args: &[&str]| {
        let mut command = Command::new(agent());
        command
            .arg("--root")
            .arg(&root)
            .args(["store", "check"])
            .args(args);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    write(&s3.settings());
    let (code, out, err) = run(&[]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("upload in parts") && !out.contains("FAILED"),
        "{out}"
    );
    assert!(err.contains("trying to list objects"), "{err}");
    let (code, out, _) = run(&["-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"]), (Some(0), &serde_json::Value::Bool(true)));
    assert_eq!(report["rights"].as_array().unwrap().len(), Right::ALL.len());
    assert_eq!(report["rights"][0]["result"], "ok");

    write(&s3.settings_of(s3.address(), "labaccess", "wrong-secret"));
    let (code, out, _) = run(&[]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("FAILED") && out.contains("skipped"), "{out}");

    fs::write(config.join("config.toml"), "[cluster]\nname = \"prod\"\n").unwrap();
    let (code, _, err) = run(&[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("set store.url"), "{err}");
}
