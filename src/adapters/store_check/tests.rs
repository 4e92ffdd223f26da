use super::*;
use crate::config::{Proxy, S3Options};

fn settings(path: &std::path::Path, shared: bool) -> StoreSettings {
    StoreSettings {
        url: StoreUrl::Directory(path.to_owned()),
        endpoint: None,
        region: None,
        path_style: false,
        ca_file: None,
        credentials_file: None,
        shared,
        options: S3Options {
            proxy: Proxy::Off,
            ..S3Options::default()
        },
    }
}

#[tokio::test]
async fn a_directory_has_every_right_and_is_left_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let mut reported = Vec::new();
    let report = check_store(&settings(place.path(), true), |right| reported.push(right)).await;
    assert!(report.ok && report.left_behind.is_empty(), "{report:?}");
    assert_eq!(reported, Right::ALL);
    for tried in &report.rights {
        let skipped = matches!(tried.found, Found::Skipped { .. });
        assert_eq!(skipped, tried.right == Right::ReadRange, "{tried:?}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_store_that_does_not_arbitrate_needs_no_conditions() {
    let place = tempfile::tempdir().unwrap();
    let report = check_store(&settings(place.path(), false), |_| ()).await;
    assert!(report.ok, "{report:?}");
    let create = report
        .rights
        .iter()
        .find(|tried| tried.right == Right::Create)
        .unwrap();
    assert!(matches!(&create.found, Found::Skipped { why } if why.contains("store.shared")));
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named_once() {
    let place = tempfile::tempdir().unwrap();
    let report = check_store(&settings(&place.path().join("none"), true), |_| ()).await;
    assert!(!report.ok);
    let failed: Vec<_> = report
        .rights
        .iter()
        .filter(|tried| matches!(&tried.found, Found::Failed { error, .. } if error.contains("it does not exist")))
        .map(|tried| tried.right)
        .collect();
    assert_eq!(failed, [Right::List, Right::Write]);
    assert!(
        report.rights[2..]
            .iter()
            .all(|tried| matches!(tried.found, Found::Skipped { .. }))
    );
}

#[test]
fn the_advice_names_the_action_and_the_prefix() {
    assert_eq!(
        allow(Right::List, "backups", "etcd/prod"),
        "allow s3:ListBucket on arn:aws:s3:::backups with the prefix etcd/prod/*"
    );
    assert_eq!(
        allow(Right::Delete, "backups", ""),
        "allow s3:DeleteObject on arn:aws:s3:::backups/*"
    );
}
