//! `upgrade` and `downgrade` against an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;

use super::orders::with_versions;
use super::{fixture, socket};
use crate::cli::{Cli, Exit, Verb, downgrade, upgrade};
use crate::model::{Memory, PlanView};
use crate::paths::Paths;

#[tokio::test]
async fn a_setting_that_a_later_step_would_ignore_refuses_the_first() {
    let all = ["3.4.23", "3.5.30", "3.6.16", "3.7.3"];
    let table = [
        (
            "3.4.23",
            "experimental-enable-v2v3",
            "upgrade --to 3.6.16",
            "etcd 3.6.16 would ignore",
        ),
        (
            "3.7.3",
            "feature-gates",
            "downgrade --to 3.5.30 --dry-run",
            "etcd 3.5.30 would ignore",
        ),
    ];
    for (running, setting, line, expected) in table {
        let mut observation = fixture::observation();
        observation
            .spec
            .etcd
            .settings
            .insert(setting.to_owned(), "on".to_owned());
        let planned = PlanView {
            decision: crate::plan::plan(&observation, &Memory::default()),
            observation,
        };
        let seen = with_versions(&all, running);
        let ordered = Arc::new(AtomicUsize::new(0));
        let orders = Arc::clone(&ordered);
        let router = Router::new()
            .route("/v1/status/fresh", get(move || async { Json(seen) }))
            .route("/v1/plan", get(move || async { Json(planned) }))
            .fallback(move || async move {
                orders.fetch_add(1, Ordering::SeqCst);
                StatusCode::CONFLICT
            });
        let (root, _) = socket::serve(router);
        let paths = Paths::below(root.path());
        let words = ["etcd-agent"].into_iter().chain(line.split(' '));
        let answer = match Cli::try_parse_from(words).unwrap().verb {
            Verb::Upgrade(args) => upgrade::run(&paths, args).await,
            Verb::Downgrade(args) => downgrade::run(&paths, args).await,
            other => panic!("{other:?}"),
        };
        let refused = answer.unwrap_err();
        assert_eq!(refused.exit, Exit::Refused, "{refused}");
        assert!(refused.text.starts_with(expected), "{refused}");
        assert_eq!(ordered.load(Ordering::SeqCst), 0, "nothing was ordered");
    }
}

/// An agent that starts again answers with 503. It may have taken the order before, so a later refusal says nothing.
#[tokio::test]
async fn an_order_to_an_agent_that_is_not_ready_is_given_again() {
    let table: [(&[u16], Exit); 2] = [(&[409], Exit::Refused), (&[503, 409, 500], Exit::Failed)];
    for (answers, expected) in table {
        let seen = with_versions(&["3.5.30", "3.6.16"], "3.5.30");
        let ordered = Arc::new(AtomicUsize::new(0));
        let orders = Arc::clone(&ordered);
        let router = Router::new()
            .route("/v1/status/fresh", get(move || async { Json(seen) }))
            .fallback(move || async move {
                let answer = answers.get(orders.fetch_add(1, Ordering::SeqCst)).unwrap();
                StatusCode::from_u16(*answer).unwrap()
            });
        let (root, _) = socket::serve(router);
        let line = ["etcd-agent", "upgrade", "--to", "3.6.16", "--no-backup", "--yes"];
        let Verb::Upgrade(args) = Cli::try_parse_from(line).unwrap().verb else {
            panic!("not an upgrade")
        };
        let answer = upgrade::run(&Paths::below(root.path()), args).await;
        assert_eq!(answer.unwrap_err().exit, expected);
        assert_eq!(ordered.load(Ordering::SeqCst), answers.len());
    }
}
