//! `etcd-agent store check`.

use std::fmt::Write;

use super::config::load;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::progress::{Progress, note};
use crate::adapters::store_check::{Found, Right, StoreReport, check_store};
use crate::paths::Paths;

/// Test what the agent may do in the store
#[derive(Debug, clap::Subcommand)]
pub(super) enum StoreVerb {
    /// Test every permission that the agent needs in the configured store, and name the missing ones
    Check(Output),
}

pub(super) async fn run(paths: &Paths, verb: &StoreVerb) -> Outcome {
    let StoreVerb::Check(output) = *verb;
    let settings = load(paths)?.settings.store;
    let settings =
        settings.ok_or_else(|| Failure::new(Exit::Usage, "no store is configured: set store.url"))?;
    let mut progress = Progress::new();
    let tell = |right: Right| progress.say(&format!("trying to {}", right.title()));
    let report = check_store(&settings, tell).await;
    drop(progress);
    output.print_own(&report, render)?;
    if rustix::process::geteuid().is_root() {
        note(
            "etcd-agent: tried as root; to try with the rights of the agent's own user on files: \
             runuser -u etcd-agent -- etcd-agent store check",
        );
    }
    Ok(if report.ok { Exit::Ok } else { Exit::Failed })
}

pub(super) fn render(report: &StoreReport) -> String {
    let rows: Vec<Vec<String>> = report
        .rights
        .iter()
        .map(|tried| {
            let (result, details) = match &tried.found {
                Found::Ok => ("ok", String::new()),
                Found::Failed { .. } => ("FAILED", String::new()),
                Found::Skipped { why } => ("skipped", why.clone()),
            };
            vec![tried.right.title().to_owned(), result.to_owned(), details]
        })
        .collect();
    let mut text = format!("{}\n\n", report.store);
    text.push_str(&out::table(&["RIGHT", "RESULT", ""], &rows));
    for tried in &report.rights {
        if let Found::Failed { error, advice } = &tried.found {
            let _ = writeln!(text, "\n{}: {error}", tried.right.title());
            if let Some(advice) = advice {
                let _ = writeln!(text, "  {advice}");
            }
        }
    }
    if !report.left_behind.is_empty() {
        let _ = writeln!(
            text,
            "\nleft behind, to be deleted by hand: {}",
            report.left_behind.join(", ")
        );
    }
    text
}
