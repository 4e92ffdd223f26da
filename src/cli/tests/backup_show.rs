//! `backup show`: its text, its name, and a backup that is not there.

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;

use super::fixture::{NOW, backups, name};
use super::socket::serve;
use crate::cli::backup_show::{Shown, render};
use crate::cli::{Cli, Exit, Failure, dispatch};
use crate::model::*;
use crate::paths::Paths;

fn stored() -> StoredBackup {
    StoredBackup {
        covered: Revision(81_300),
        summary: backups().remove(1),
        writer: Writer::EtcdAgent,
        epoch: Some(Epoch(1)),
        timeline: Some(2),
        went_back: None,
        revision_at_most: None,
        verified: None,
        verify_unreadable: None,
        marks: Marks::default(),
    }
}

fn text(stored: StoredBackup, keep: Option<Vec<Keep>>) -> String {
    let listed = ListedBackup::Readable(Box::new(stored));
    render(&Shown { listed, keep }, NOW)
}

#[test]
fn everything_that_is_known() {
    insta::assert_snapshot!(
        "fresh",
        text(stored(), Some(vec![Keep::Newest, Keep::Increments]))
    );
    let mut marked = stored();
    marked.covered = marked.summary.revision;
    marked.verified = Some(Verified {
        at: UnixMs(NOW.0 - 60_000),
        problems: vec!["it is cut off".to_owned()],
    });
    marked.went_back = Some("member a1 has revision 7".to_owned());
    marked.marks.kept = Some(Kept {
        since: NOW,
        node: name("n1"),
        reason: Some("audit".to_owned()),
    });
    marked.marks.note = Some(Note {
        at: NOW,
        node: name("n2"),
        text: "before the upgrade".to_owned(),
    });
    insta::assert_snapshot!("marked", text(marked, Some(vec![Keep::Kept])));
    let mut foreign = stored();
    foreign.writer = Writer::EtcdManager;
    foreign.epoch = None;
    foreign.verify_unreadable = Some("403".to_owned());
    foreign.marks.marks_unreadable = Some("403".to_owned());
    insta::assert_snapshot!("foreign", text(foreign, None));
    let goes = text(stored(), Some(Vec::new()));
    assert!(goes.contains("the next pruning removes it"), "{goes}");
    let listed = ListedBackup::Unreadable {
        id: stored().summary.id,
        unreadable: "403".to_owned(),
    };
    let unreadable = render(&Shown { listed, keep: None }, NOW);
    assert_eq!(unreadable, "2026-03-01T12:00:00Z-000003 cannot be read: 403\n");
}

/// An agent with one backup, whose retention can be judged or not.
fn agent(judged: bool) -> (tempfile::TempDir, Paths) {
    let page = |query: RawQuery| async move {
        let wanted = format!("backup={}", stored().summary.id);
        let listed = ListedBackup::Readable(Box::new(stored()));
        let there = query.0.as_deref() == Some(wanted.as_str());
        Json(Page {
            items: if there { vec![listed] } else { Vec::new() },
            next: None,
        })
    };
    let retention = move || async move {
        if !judged {
            let error = "403".to_owned();
            return Err((StatusCode::BAD_GATEWAY, Json(ApiError { error })));
        }
        Ok(Json(Page {
            items: vec![Verdict {
                backup: stored(),
                keep: vec![Keep::Newest],
            }],
            next: None,
        }))
    };
    let point = || async {
        let mut point = stored().summary;
        point.id = BackupId::new(format!("{}.r81300", point.id)).unwrap();
        Json(point)
    };
    let router = Router::new()
        .route("/v1/backups", get(page))
        .route("/v1/backups/retention", get(retention))
        .route("/v1/backups/point", get(point));
    let (root, _) = serve(router);
    let paths = Paths::below(root.path());
    (root, paths)
}

async fn show(paths: &Paths, words: &[&str]) -> Result<Exit, Failure> {
    let line = ["etcd-agent", "backup", "show"].iter().chain(words);
    Box::pin(dispatch(paths, Cli::try_parse_from(line).unwrap().verb)).await
}

#[tokio::test]
async fn a_backup_is_found_by_its_name_by_a_point_and_as_the_latest() {
    for judged in [true, false] {
        let (_root, paths) = agent(judged);
        for words in [
            &["2026-03-01T12:00:00Z-000003", "-o", "json"][..],
            &["2026-03-01T12:00:00Z-000003.r81300"],
            &["latest", "-o", "yaml"],
            &[],
        ] {
            assert_eq!(show(&paths, words).await, Ok(Exit::Ok), "{words:?}");
        }
    }
    let (_root, paths) = agent(true);
    let unknown = show(&paths, &["2026-03-01T12:00:00Z-000004"]).await.unwrap_err();
    assert_eq!(unknown.exit, Exit::Failed);
    assert!(
        unknown.text.contains("no backup 2026-03-01T12:00:00Z-000004")
            && unknown.text.contains("backup list"),
        "{unknown}"
    );
    assert_eq!(show(&paths, &["no/name"]).await.unwrap_err().exit, Exit::Usage);
}
