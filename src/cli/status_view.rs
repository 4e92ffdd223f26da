//! How `etcd-agent status` shows a cluster: a table with or without more columns, JSON, YAML.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::ValueEnum;
use serde::Serialize;

use super::colour::{self, Tone};
use super::exit::Failure;
use super::health::{self, Health, Problem};
use super::out::{self, Versioned};
use super::{plain, reboot_lock};
use crate::model::{AdminStatus, BackupSummary, Fact, NodeStatus, wording};

/// `-o`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people.
    #[default]
    Table,
    /// With more columns.
    Wide,
    /// For programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The status for programs: the verdict, then what it is based on.
#[derive(Debug, Serialize)]
struct StatusView<'a> {
    /// One of `Health::WORDS`; the exit code says the same.
    health: &'static str,
    /// What is wrong; empty if healthy.
    problems: Vec<Problem>,
    #[serde(flatten)]
    status: &'a AdminStatus,
}

/// What is printed, clean of what a terminal obeys.
pub(super) fn shown(status: &AdminStatus, form: Form) -> Result<String, Failure> {
    match form {
        Form::Json => out::json(&view(status)),
        Form::Yaml => out::yaml(&view(status)),
        Form::Table | Form::Wide => {
            let plain = out::plain(status)?;
            let text = plain::lines(&text(&plain, form == Form::Wide)).into_owned();
            Ok(if colour::on() {
                painted(&text, &plain)
            } else {
                text
            })
        }
    }
}

/// As JSON on one line.
pub(super) fn json_line(status: &AdminStatus) -> Result<String, Failure> {
    out::json_line(&view(status))
}

fn view(status: &AdminStatus) -> Versioned<StatusView<'_>> {
    Versioned::new(StatusView {
        health: health::judge(status).word(),
        problems: health::problems(status),
        status,
    })
}

/// How a health looks.
pub(super) fn tone(health: &Health) -> Tone {
    match health {
        Health::Healthy => Tone::Good,
        Health::Degraded(_) | Health::Starting => Tone::Warning,
        Health::Down(_) => Tone::Bad,
    }
}

pub(super) fn painted(text: &str, status: &AdminStatus) -> String {
    let mut painted = String::new();
    for (number, line) in text.lines().enumerate() {
        let is_title = !line.starts_with(' ') && line.ends_with(':');
        let line = match line {
            _ if number == 0 => colour::paint(tone(&health::judge(status)), line),
            _ if line.starts_with("INSECURE") || line.starts_with("PAUSED") => {
                colour::paint(Tone::Warning, line)
            }
            "Not well:" => colour::paint(Tone::Bad, line),
            _ if is_title || line.starts_with("NODE ") => colour::paint(Tone::Heading, line),
            _ => colour::cells(line),
        };
        painted.push_str(&line);
        painted.push('\n');
    }
    painted
}

/// One header line, the nodes, the backups, the problems, and what the agent waits for.
pub(super) fn text(status: &AdminStatus, wide: bool) -> String {
    let mut text = format!("{}\n", wording::headline(status));
    if health::nodes(status).any(|(_, seen)| seen.known().is_some_and(|seen| seen.insecure)) {
        text.push_str("INSECURE: agents talk without TLS, and anybody who reaches them is believed\n");
    }
    if let Some(paused) = &status.node.steering.directives.paused {
        let _ = writeln!(
            text,
            "PAUSED at {} since {}: nothing is done by itself until `etcd-agent resume`",
            paused.by,
            out::time(paused.since)
        );
    }
    text.push('\n');
    text.push_str(&nodes(status, wide));
    text.push('\n');
    text.push_str(&backups(status));
    let mut list = |title: &str, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{title}:");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    };
    list("Not well", with_help(health::judge(status).problems()));
    let out = status
        .node
        .steering
        .directives
        .out
        .iter()
        .map(|node| format!("{node}, until `etcd-agent member add {node}`"));
    list("Ordered out", out.collect());
    list("Reboot lock", reboot_lock::held(status));
    list("Downgrade in etcd", downgrades(status));
    let restarts = health::nodes(status).filter_map(|(node, seen)| {
        let wish = seen.known()?.steering.wants_restart.as_ref()?;
        Some(format!("{node}: {}", wish.why))
    });
    list("To be restarted, one after the other", restarts.collect());
    let defrags = health::nodes(status).filter_map(|(node, seen)| {
        let steering = &seen.known()?.steering;
        let wish = steering.defrag.wish.as_ref()?;
        Some(match &wish.failed {
            _ if steering.defrag.running => format!("{node}: under way"),
            Some(error) => format!("{node}: {}; the last attempt failed: {error}", wish.why),
            None => format!("{node}: {}", wish.why),
        })
    });
    list("To be defragmented, one after the other", defrags.collect());
    let reasons = status.decision.reasons.iter().filter(|reason| !reason.halt);
    list("Why", reasons.map(ToString::to_string).collect());
    text
}

/// Each problem, and below it what to do. Problems in a row with one remedy share its line.
fn with_help(problems: &[Problem]) -> Vec<String> {
    let mut lines = Vec::new();
    for same in problems.chunk_by(|one, next| one.help == next.help) {
        lines.extend(same.iter().map(|problem| problem.text.clone()));
        lines.extend(same.first().map(|problem| format!("  {}", problem.help)));
    }
    lines
}

/// The minors for which etcd has a downgrade enabled, each with the nodes whose etcd reports it.
fn downgrades(status: &AdminStatus) -> Vec<String> {
    let mut enabled: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for (node, etcd) in health::serving(status) {
        if let Some(to) = etcd.downgrade_to {
            enabled.entry(to.series()).or_default().push(node.as_str());
        }
    }
    let lines = enabled.into_iter().map(|((major, minor), nodes)| {
        format!(
            "enabled, to {major}.{minor}, as etcd on {} reports: `etcd-agent downgrade --cancel` ends it while a member still \
             runs the newer etcd",
            nodes.join(", ")
        )
    });
    lines.collect()
}

fn nodes(status: &AdminStatus, wide: bool) -> String {
    let mut head = vec![
        "NODE", "MEMBER", "ROLE", "UNIT", "DATA", "ETCD", "REVISION", "DB SIZE", "EPOCH", "AGENT",
    ];
    if wide {
        head.extend(["IN USE", "TERM", "APPLIED", "STORAGE", "CERTIFICATE", "BACKUP"]);
    }
    let rows: Vec<Vec<String>> = health::nodes(status)
        .map(|(name, seen)| {
            let mark = if *name == status.node.node { "*" } else { "" };
            let mut row = vec![format!("{name}{mark}")];
            match seen {
                Fact::Known(node) => {
                    row.extend(cells(node));
                    if wide {
                        row.extend(more_cells(node));
                    }
                }
                Fact::Absent => row.extend(["-", "never answered"].map(str::to_owned)),
                Fact::Unreachable(_) => row.extend(["-", "out of reach"].map(str::to_owned)),
            }
            row
        })
        .collect();
    out::table(&head, &rows)
}

fn cells(node: &NodeStatus) -> Vec<String> {
    let dash = || "-".to_owned();
    let etcd = node.etcd.known();
    let member = etcd
        .map(|etcd| etcd.member_id)
        .or_else(|| node.assignment.as_ref().map(|assignment| assignment.member_id));
    vec![
        member.map_or_else(dash, |id| id.to_string()),
        wording::role(node).to_owned(),
        node.unit.known().map_or_else(|| "?".to_owned(), wording::unit),
        node.data.known().map_or("?", wording::data).to_owned(),
        etcd.map_or_else(dash, |etcd| etcd.version.clone()),
        etcd.map_or_else(dash, |etcd| etcd.revision.to_string()),
        etcd.map_or_else(dash, |etcd| out::size(etcd.db_size_bytes)),
        node.assignment
            .as_ref()
            .map_or_else(dash, |assignment| assignment.epoch.to_string()),
        node.agent_version.clone(),
    ]
}

/// The further columns of `-o wide`.
fn more_cells(node: &NodeStatus) -> Vec<String> {
    let dash = || "-".to_owned();
    let etcd = node.etcd.known();
    vec![
        etcd.and_then(|etcd| etcd.db_in_use_bytes)
            .map_or_else(dash, out::size),
        etcd.map_or_else(dash, |etcd| etcd.term.to_string()),
        etcd.map_or_else(dash, |etcd| etcd.applied.to_string()),
        etcd.and_then(|etcd| etcd.storage_version)
            .map_or_else(dash, |version| version.to_string()),
        node.certificate_not_after
            .map_or_else(dash, |until| format!("until {}", out::time(until))),
        node.last_backup
            .as_ref()
            .map_or_else(dash, |backup| backup.id.to_string()),
    ]
}

fn copies(status: &AdminStatus) -> String {
    let Some(copy) = &status.copy else {
        return String::new();
    };
    let newest = match (&copy.newest, copy.at) {
        (Some(newest), Some(at)) => {
            let covers = copy.covered.map(|to| format!(", covers to revision {to}"));
            format!(
                "up to {newest}{}, {} ago",
                covers.unwrap_or_default(),
                out::age(status.node.now.since(at))
            )
        }
        _ => "none yet".to_owned(),
    };
    let failing = copy.error.iter().map(|error| format!("; failing: {error}"));
    format!(
        "Copies: {}, {newest}{}\n",
        copy.store,
        failing.collect::<String>()
    )
}

fn backups(status: &AdminStatus) -> String {
    let Some(store) = &status.store else {
        return "Backups: none, no store is configured\n".to_owned();
    };
    let newest: Option<&BackupSummary> = health::nodes(status)
        .filter_map(|(_, seen)| match seen {
            Fact::Known(seen) => seen.last_backup.as_ref(),
            Fact::Absent | Fact::Unreachable(_) => None,
        })
        .max_by_key(|backup| backup.at);
    let newest = match newest {
        Some(backup) => format!(
            "Backups: {store}, newest {} ({} ago, revision {}, {})\n",
            backup.id,
            out::age(status.node.now.since(backup.at)),
            backup.revision,
            out::size(backup.size_bytes)
        ),
        None => format!("Backups: {store}, none yet\n"),
    };
    let verifying = if status.backups.verify.running {
        "Verifying: a backup is being restored into a throw-away etcd\n"
    } else {
        ""
    };
    newest + &copies(status) + verifying
}
