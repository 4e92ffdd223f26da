//! `etcd-agent plan`: the next action, and why.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use crate::model::{Action, Decision, Memory, Observation, PlanView};
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
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(paths: &Paths, args: PlanArgs) -> Outcome {
    let view = match args.observation {
        None => Client::new(paths).get("/v1/plan").await?,
        Some(file) => replay(read(&file)?),
    };
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
    let coordinator = if decision.coordinator { "yes" } else { "no" };
    format!(
        "{}\n\n{}\nLooks again in {} or when something changes; coordinator here: {coordinator}\n",
        decision.text,
        decided(decision),
        out::age(decision.wake)
    )
}

/// The next action, and why.
pub(super) fn decided(decision: &Decision) -> String {
    let mut text = String::new();
    match &decision.action {
        None => text.push_str("Nothing to do now.\n"),
        Some(action) => {
            let _ = writeln!(text, "Next: {}", describe(action));
        }
    }
    if !decision.reasons.is_empty() {
        text.push_str("\nWhy:\n");
    }
    for reason in &decision.reasons {
        let mark = if reason.halt { " (until a person acts)" } else { "" };
        let _ = writeln!(text, "  {reason}{mark}");
    }
    text
}

/// An action's name and its plain fields.
fn describe(action: &Action) -> String {
    let mut text = action.name().to_owned();
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(action) {
        for (key, value) in fields {
            match value {
                serde_json::Value::String(value) if key != "action" => {
                    let _ = write!(text, " {key}={value}");
                }
                value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => {
                    let _ = write!(text, " {key}={value}");
                }
                _ => {}
            }
        }
    }
    text
}
