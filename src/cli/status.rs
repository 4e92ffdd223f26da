//! `etcd-agent status`.

use std::fmt::Write;

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::health::{self, Health};
use super::out::{self, Output};
use super::reboot_lock;
use crate::model::{AdminStatus, BackupSummary, Fact, NodeStatus, wording};
use crate::paths::Paths;

pub(super) async fn run(paths: &Paths, output: Output) -> Outcome {
    let status: AdminStatus = Client::new(paths).get("/v1/status").await?;
    output.print(&status, render)?;
    Ok(exit(&status))
}

/// The exit code for the health of the cluster.
pub(super) fn exit(status: &AdminStatus) -> Exit {
    match health::judge(status) {
        Health::Healthy => Exit::Ok,
        Health::Degraded(_) => Exit::Degraded,
        Health::Down(_) => Exit::Down,
        Health::Starting => Exit::Starting,
    }
}

/// One header line, the nodes, the backups, the problems, and what the agent waits for.
pub(super) fn render(status: &AdminStatus) -> String {
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
    text.push_str(&nodes(status));
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
    if let Health::Degraded(wrong) | Health::Down(wrong) = health::judge(status) {
        list("Not well", wrong);
    }
    let out = status
        .node
        .steering
        .directives
        .out
        .iter()
        .map(|node| format!("{node}, until `etcd-agent member add {node}`"));
    list("Ordered out", out.collect());
    list("Reboot lock", reboot_lock::held(status));
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

fn nodes(status: &AdminStatus) -> String {
    let head = [
        "NODE", "MEMBER", "ROLE", "UNIT", "DATA", "ETCD", "REVISION", "DB SIZE", "EPOCH", "AGENT",
    ];
    let rows: Vec<Vec<String>> = health::nodes(status)
        .map(|(name, seen)| {
            let mark = if *name == status.node.node { "*" } else { "" };
            let mut row = vec![format!("{name}{mark}")];
            match seen {
                Fact::Known(node) => row.extend(cells(node)),
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
