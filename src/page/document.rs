//! The document around the parts of the page.

use maud::{DOCTYPE, Markup, html};

use super::picture::Picture;
use super::verdict::Verdict;
use super::visible::visible;
use super::{backups, events, nodes, parts, reasons, verdict};

/// The style sheet of the page.
pub const STYLE: &str = include_str!("style.css");
/// Where the page expects its style sheet.
pub const STYLE_PATH: &str = "/status.css";

/// How often the page reloads itself when a reader asks for it, in seconds.
const REFRESH: u16 = 10;

/// The page as HTML.
pub fn page(picture: &Picture) -> String {
    visible(&document(picture).into_string())
}

fn document(picture: &Picture) -> Markup {
    let status = &picture.status;
    let verdict = Verdict::of(status);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(seconds) = picture.refresh {
                    meta http-equiv="refresh" content=(seconds);
                }
                title { (verdict.title()) ": " (status.node.cluster) ", seen by " (status.node.node) }
                link rel="stylesheet" href=(STYLE_PATH);
            }
            body {
                header { (verdict::head(picture, &verdict)) }
                nav aria-label="Sections" {
                    ul {
                        li { a href="#nodes" { "Nodes" } }
                        li { a href="#backups" { "Backups" } }
                        li { a href="#reasons" { "Reasons" } }
                        li { a href="#events" { "Events" } }
                    }
                }
                main {
                    (verdict::problems(&verdict))
                    (nodes::section(picture))
                    (backups::section(picture))
                    (reasons::section(status))
                    (events::section(picture))
                }
                footer { (foot(picture)) }
            }
        }
    }
}

fn foot(picture: &Picture) -> Markup {
    let node = &picture.status.node;
    html! {
        p {
            "etcd-agent " (node.agent_version) " on " (node.node) ", page of " (parts::time(picture.now())) ". "
            @if let Some(at) = picture.status.vitals.looked_at {
                "The agent last looked at etcd and systemd " (parts::ago(at, picture.now())) ". "
            }
        }
        p {
            @if picture.refresh.is_some() {
                "This page reloads itself. " a href="/" { "Stop reloading" }
            } @else {
                a href={ "/?refresh=" (REFRESH) } { "Reload every " (REFRESH) " seconds" }
            }
            ". " a href="/metrics" { "Metrics for Prometheus" } "."
        }
    }
}
