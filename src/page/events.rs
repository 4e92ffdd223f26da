//! The last events.

use maud::{Markup, html};

use super::parts;
use super::picture::Picture;
use crate::model::{Event, wording};

const HEAD: [&str; 5] = ["When", "Decision", "Outcome", "Took", "Why"];
/// How many events are shown. `etcd-agent events` and the journal have more.
const SHOWN: usize = 20;

pub(super) fn section(picture: &Picture) -> Markup {
    let rows: Vec<Vec<Markup>> = picture.events.iter().rev().take(SHOWN).map(row).collect();
    html! {
        section aria-labelledby="events" {
            h2 #events { "Events" }
            @if rows.is_empty() {
                p { "Nothing was decided in this run of the agent." }
            } @else {
                (parts::table("The last decisions of this node's agent, the newest first", &HEAD, &rows))
                p .small { code { "etcd-agent events" } " and the journal have more." }
            }
        }
    }
}

fn row(event: &Event) -> Vec<Markup> {
    let (outcome, error) = wording::outcome(&event.outcome);
    let class = match outcome {
        "failed" | "halted" => "bad",
        "done" => "good",
        _ => "plain",
    };
    vec![
        parts::time(event.at),
        html! { (event.decision) },
        html! {
            span class=(class) { (outcome) }
            @if event.times > 1 { " (" (event.times) " times)" }
        },
        html! { (wording::took(event.duration_ms)) },
        html! {
            @for why in error.into_iter().chain(event.reasons.iter().map(String::as_str)) { p { (why) } }
        },
    ]
}
