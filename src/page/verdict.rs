//! The verdict, what holds the agent back, and the problems.

use maud::{Markup, html};

use super::picture::Picture;
use super::{guide, parts, reasons};
use crate::model::health::{self, Health, Problem};
use crate::model::{AdminStatus, wording};

/// The judgement of the exit code of `status`, and what the agent is in the middle of.
pub(super) struct Verdict {
    health: Health,
    /// `halted`, `restoring`, `paused`.
    notes: Vec<&'static str>,
}

impl Verdict {
    pub(super) fn of(status: &AdminStatus) -> Self {
        let halted = status.decision.reasons.iter().any(|reason| reason.halt);
        let notes = [
            (halted, "halted"),
            (!restoring(status).is_empty(), "restoring"),
            (status.node.steering.directives.paused.is_some(), "paused"),
        ];
        Self {
            health: health::judge(status),
            notes: notes
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, note)| *note)
                .collect(),
        }
    }

    /// For example `Down (halted)`.
    pub(super) fn title(&self) -> String {
        let word = self.health.word();
        let (first, rest) = word.split_at(1);
        let word = first.to_uppercase() + rest;
        if self.notes.is_empty() {
            word
        } else {
            format!("{word} ({})", self.notes.join(", "))
        }
    }

    fn means(&self) -> &'static str {
        match self.health {
            Health::Healthy => "All wanted members serve, and nothing is wrong.",
            Health::Degraded(_) => "etcd serves, and something is wrong.",
            Health::Down(_) => "No member of etcd serves with a leader.",
            Health::Starting => {
                "The agent has just started and knows nothing about etcd and the other nodes yet."
            }
        }
    }
}

/// The nodes on which a request to restore a backup is open.
fn restoring(status: &AdminStatus) -> Vec<&str> {
    health::nodes(status)
        .filter(|(_, seen)| seen.known().is_some_and(|node| node.steering.restoring))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// The heading, and one line for each thing that every reader has to know.
pub(super) fn head(picture: &Picture, verdict: &Verdict) -> Markup {
    let status = &picture.status;
    let restoring = restoring(status);
    html! {
        h1 {
            span class={ "verdict " (verdict.health.word()) } { (verdict.title()) }
            " " span .cluster { (status.node.cluster) }
        }
        p { (verdict.means()) " Seen by " (status.node.node) ": " (parts::words(wording::headline(status))) "." }
        @if verdict.notes.contains(&"halted") {
            p .note { strong { "Halted." } " The agent does nothing more until a person acts. It leaves etcd as it is." }
        }
        @if !restoring.is_empty() {
            p .note { strong { "Restoring." } " A backup is being restored, as ordered on " (restoring.join(", ")) "." }
        }
        @if let Some(paused) = &status.node.steering.directives.paused {
            p .note {
                strong { "Paused" } " on " (paused.by) " since " (parts::time(paused.since))
                ". Nothing is done automatically until " code { "etcd-agent resume" } "."
            }
        }
        @if health::nodes(status).any(|(_, seen)| seen.known().is_some_and(|seen| seen.insecure)) {
            p .note {
                strong { "Insecure." } " Agents talk without TLS, and anybody who reaches them is believed."
            }
        }
    }
}

/// What is wrong, if something is.
pub(super) fn problems(verdict: &Verdict) -> Markup {
    let problems = verdict.health.problems();
    html! {
        @if !problems.is_empty() {
            section aria-labelledby="problems" {
                h2 #problems { "What is wrong" }
                ul .problems {
                    @for problem in problems {
                        li { (parts::words(&problem.text)) br; (help(problem)) }
                    }
                }
            }
        }
    }
}

/// What to do about a problem. What to do about a halt is below, next to its reason.
fn help(problem: &Problem) -> Markup {
    html! {
        @if problem.is_halt() {
            a href={ "#" (reasons::anchor(&problem.code)) } { "What to do about " (problem.code) }
        } @else {
            "What to do: " (guide::inline(&problem.help)) "."
        }
    }
}
