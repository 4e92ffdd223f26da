//! `etcd-agent plan`: the next action, and why.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::decision::decided;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::plan_after;
use crate::model::{Hypothesis, Memory, Observation, PlanView};
use crate::paths::Paths;

/// An observation has a few kilobytes per node.
const MAX_BYTES: u64 = 64 << 20;

/// Show the next action, and why
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Plan on a saved observation (or the JSON output of this command) instead of asking the agent; `-`
    /// reads standard input
    #[arg(long, value_name = "FILE")]
    observation: Option<PathBuf>,
    /// Show what would follow from a fault, and which further fault would cost quorum: 'reboot NODE', 'stop
    /// NODE' or 'lose NODE'
    #[arg(long, value_name = "FAULT")]
    after: Option<Hypothesis>,
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(paths: &Paths, args: PlanArgs) -> Outcome {
    let view: PlanView = match args.observation {
        None => Client::new(paths).get("/v1/plan").await?,
        Some(file) => replay(read(&file)?),
    };
    if let Some(after) = &args.after {
        let view = plan_after::suppose(&view.observation, after)?;
        args.output.print(&view, plan_after::render)?;
        return Ok(Exit::Ok);
    }
    args.output.print(&view, render)?;
    Ok(Exit::Ok)
}

/// Plans on a saved observation. The planner is pure, so the decision is the same.
pub(super) fn replay(observation: Observation) -> PlanView {
    let decision = crate::plan::plan(&observation, &Memory::default());
    PlanView {
        observation,
        decision,
    }
}

fn read(file: &Path) -> Result<Observation, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Usage,
            format!("cannot read the observation in {}: {error}", file.display()),
        )
    };
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| cannot(&error))?)
    };
    source
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot(&error))?;
    parse(&bytes).map_err(|error| cannot(&error))
}

/// An observation, alone or within the output of `plan -o json`.
pub(super) fn parse(bytes: &[u8]) -> Result<Observation, serde_json::Error> {
    let value: serde_json::Value = serde_json::from_slice(bytes)?;
    let inner = value.get("observation").cloned().unwrap_or(value);
    serde_json::from_value(inner)
}

pub(super) fn render(view: &PlanView) -> String {
    let decision = &view.decision;
    let coordinator = if decision.coordinator {
        "This node is the coordinator: it decides for the cluster."
    } else {
        "This node is not the coordinator: it decides for itself only."
    };
    format!(
        "{}\n\n{}\nLooks again in {} or when something changes. {coordinator}\n",
        decision.text,
        decided(decision),
        out::age(decision.wake)
    )
}
