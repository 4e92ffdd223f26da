//! `etcd-agent events`: decisions with their time, reasons and results.

use std::time::Duration;

use super::client::{CallError, Client};
use super::exit::{Exit, Failure, Outcome};
use super::moment::moment;
use super::out::{self, Format, Output};
use crate::model::{Event, EventsView, UnixMs, wording};
use crate::paths::Paths;

/// How often `--follow` polls.
const EVERY: Duration = Duration::from_millis(500);
/// How many are shown by default.
const LINES: usize = 20;

/// Show what this node's agent decided, when and why
///
/// The agent keeps the last 512 since it was started. The journal has older ones.
#[derive(Debug, clap::Args)]
pub(super) struct EventsArgs {
    /// The last N [default: 20; with --since: all]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<usize>,
    /// Only what was decided since then: "2026-11-27 10:00", 10:00, yesterday, -1h, "1h ago", or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    since: Option<UnixMs>,
    /// Print new events until interrupted
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(paths: &Paths, args: EventsArgs) -> Outcome {
    let client = Client::new(paths);
    let view: EventsView = client.get("/v1/events").await?;
    let last = chosen(view.events, args.lines, args.since);
    if !args.follow {
        args.output
            .list("events", &last, |events| table(events, args.since))?;
        return Ok(Exit::Ok);
    }
    if !lines(&last, args.output)? {
        return Ok(Exit::Ok);
    }
    tokio::select! {
        outcome = follow(&client, view.newest, args.output) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Ok),
    }
}

/// The last ones since that time.
pub(super) fn chosen(events: Vec<Event>, lines: Option<usize>, since: Option<UnixMs>) -> Vec<Event> {
    let since = since.unwrap_or_default();
    let mut chosen: Vec<Event> = events.into_iter().filter(|event| event.at >= since).collect();
    let lines = lines.unwrap_or(if since.0 > 0 { usize::MAX } else { LINES });
    chosen.split_off(chosen.len().saturating_sub(lines))
}

async fn follow(client: &Client, mut seen: u64, output: Output) -> Outcome {
    loop {
        tokio::time::sleep(EVERY).await;
        if out::unread() {
            return Ok(Exit::Ok);
        }
        let view: EventsView = match client.get(&format!("/v1/events?after={seen}")).await {
            Ok(view) => view,
            // The agent may be restarting.
            Err(
                CallError::Unreachable(_) | CallError::TimedOut(_) | CallError::Answered { status: 503, .. },
            ) => continue,
            Err(error) => return Err(error.into()),
        };
        if view.newest < seen {
            seen = 0;
            continue;
        }
        seen = view.newest;
        if !lines(&view.events, output)? {
            return Ok(Exit::Ok);
        }
    }
}

/// One line per event; as JSON one object per line, as YAML one document, both without a version: a stream
/// is no list. False when the reader has closed
/// the pipe.
fn lines(events: &[Event], output: Output) -> Result<bool, Failure> {
    for event in events {
        if !out::print_on(&line(event, output)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An event as `--follow` prints it.
pub(super) fn line(event: &Event, output: Output) -> Result<String, Failure> {
    Ok(match output.format {
        Format::Table => cells(&out::plain(event)?).join("  "),
        Format::Json => out::json_line(event)?,
        Format::Yaml => format!("---\n{}", out::yaml(event)?),
    })
}

pub(super) fn table(events: &[Event], since: Option<UnixMs>) -> String {
    if let (true, Some(since)) = (events.is_empty(), since) {
        return format!("Nothing was decided since {}.\n", out::time(since));
    }
    if events.is_empty() {
        return "Nothing was decided in this run of the agent.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = events.iter().map(cells).collect();
    out::table(&["WHEN", "DECISION", "OUTCOME", "TOOK", "WHY"], &rows)
}

fn cells(event: &Event) -> Vec<String> {
    let times = if event.times > 1 {
        format!(" ({} times)", event.times)
    } else {
        String::new()
    };
    let (outcome, error) = wording::outcome(&event.outcome);
    let reasons = event.reasons.iter().map(String::as_str);
    let why: Vec<&str> = error.into_iter().chain(reasons).collect();
    vec![
        out::time(event.at),
        event.decision.clone(),
        format!("{outcome}{times}"),
        wording::took(event.duration_ms),
        why.join("; "),
    ]
}
