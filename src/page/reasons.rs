//! The reasons of the last decision, and what to do about each.

use maud::{Markup, html};

use super::{guide, parts};
use crate::model::{AdminStatus, Reason};

pub(super) fn section(status: &AdminStatus) -> Markup {
    let reasons = &status.decision.reasons;
    html! {
        section aria-labelledby="reasons" {
            h2 #reasons { "Reasons" }
            @if reasons.is_empty() {
                p { "The agent has nothing to do and waits for nothing." }
            } @else {
                p { "Why the agent does what it does, or waits." }
                ul .reasons {
                    @for (at, reason) in reasons.iter().enumerate() {
                        (item(reason, reasons.iter().take(at).all(|before| before.code != reason.code)))
                    }
                }
            }
        }
    }
}

/// The ID on the page of the first reason with this code.
pub(super) fn anchor(code: &str) -> String {
    format!("reason-{code}")
}

fn item(reason: &Reason, is_first: bool) -> Markup {
    let rows: Vec<guide::Row<'_>> = guide::rows(reason.code.as_str()).collect();
    html! {
        li id=[is_first.then(|| anchor(reason.code.as_str()))] {
            p { code { (reason.code) } @if reason.halt { " " strong { "halts" } } ": " (parts::words(&reason.text)) }
            // Nothing goes on until a person acts, so a halt shows at once what that is.
            details open[reason.halt] {
                summary { "What to do about " (reason.code) }
                @for row in &rows {
                    p { "It means: " (guide::inline(row.means)) "." }
                    p { "What to do: " (guide::inline(row.to_do)) "." }
                }
                @if rows.is_empty() {
                    p { "This version of the agent does not know this code: see the manual of the other version." }
                }
            }
        }
    }
}
