//! `etcd-agent ok-to-stop`: whether a node may be stopped now, as an exit code and with reasons.

use std::fmt::Write;

use super::client::Client;
use super::direct;
use super::exit::{Exit, Outcome};
use super::out::Output;
use crate::model::{AdminStatus, NodeName, Reason, StopVerdict, VotersLeft};
use crate::paths::Paths;

/// Say whether a node may be stopped now (exit code 0 yes, 4 no)
///
/// It may while the cluster keeps its quorum without it, and nothing else is under way.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// The node; default: this node
    node: Option<NodeName>,
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(paths: &Paths, args: StopArgs) -> Outcome {
    let client = Client::new(paths);
    let seen: AdminStatus = client.get("/v1/status").await?;
    let node = args.node.as_ref().unwrap_or(&seen.node.node);
    direct::known(&seen, node)?;
    let verdict: StopVerdict = client.get(&format!("/v1/ok-to-stop?node={node}")).await?;
    args.output.print(&verdict, render)?;
    Ok(exit(&verdict))
}

/// The exit code of an answer.
pub(super) fn exit(verdict: &StopVerdict) -> Exit {
    if verdict.ok { Exit::Ok } else { Exit::Refused }
}

/// The verdict on one line, then a line for each reason and note.
pub(super) fn render(verdict: &StopVerdict) -> String {
    let node = &verdict.node;
    let mut text = if verdict.ok {
        format!("{node} may be stopped now.\n")
    } else {
        format!("{node} must not be stopped now.\n")
    };
    lines(&mut text, "Why", &verdict.reasons);
    lines(&mut text, "Note", &verdict.notes);
    if let Some(left) = verdict.left.as_ref().filter(|_| verdict.ok) {
        let _ = write!(text, "\nWhile {node} is down: {}", further(left));
    }
    text
}

fn lines(text: &mut String, head: &str, reasons: &[Reason]) {
    if !reasons.is_empty() {
        let _ = writeln!(text, "\n{head}:");
    }
    for reason in reasons {
        let _ = writeln!(text, "  {reason}");
    }
}

/// The voters that are left, and what the loss of each of them would mean.
pub(super) fn further(left: &VotersLeft) -> String {
    let mut text = format!(
        "{} of {} voters would be healthy; quorum is {}.\n",
        left.healthy, left.voters, left.quorum
    );
    if !left.has_quorum() {
        text.push_str("Quorum would be lost: etcd would accept no writes and no linearizable reads.\n");
        return text;
    }
    let (tolerated, fatal): (Vec<_>, Vec<_>) = left.further_faults.iter().partition(|fault| fault.tolerated);
    for (faults, what) in [(fatal, "would cost quorum"), (tolerated, "is tolerated")] {
        let names: Vec<&str> = faults.iter().map(|fault| fault.node.as_str()).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "The further loss of {} {what}.", names.join(" or "));
        }
    }
    text
}
