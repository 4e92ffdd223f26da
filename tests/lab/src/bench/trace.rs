//! Where the time of a measurement goes: what agents, systemd and etcd did on all hosts, in the order of time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use etcd_agent_lab::{Host, Lab};

/// What is shown of etcd, which logs each of its steps.
const OF_ETCD: [&str; 4] = [
    "leadership transfer starting",
    "became leader at term",
    "ready to serve client requests",
    "closed etcd server",
];

/// Longer lines are cut.
const WIDTH: usize = 140;

/// Prints what the hosts' journals have after `since`, with the seconds since then.
pub(crate) fn print(lab: &Lab, since: SystemTime) -> Result<()> {
    let since = since.duration_since(UNIX_EPOCH)?.as_secs_f64();
    let mut lines = Vec::new();
    for host in lab.hosts() {
        lines.extend(of_host(host, since)?);
    }
    lines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    for (at, text) in lines {
        eprintln!("bench:     {:+8.3} {text:.WIDTH$}", at - since);
    }
    Ok(())
}

/// The lines of a host: the time, and the text from the host's name on.
fn of_host(host: &Host, since: f64) -> Result<Vec<(f64, String)>> {
    let whole = format!("--since=@{}", since.floor());
    let units = ["-u", "etcd", "-u", "etcd-agent", "-u", "etcd-agent-apply"];
    let format = ["-o", "short-unix", whole.as_str()];
    let journal = host.journalctl(&[&units[..], &format[..]].concat())?;
    let mut lines = Vec::new();
    for line in journal.lines() {
        let (at, text) = line.split_once(' ').context("a line without a time")?;
        let at: f64 = at.parse().with_context(|| format!("the time of {line:?}"))?;
        let is_of_etcd = text.contains(" etcd[");
        if at >= since && (!is_of_etcd || OF_ETCD.iter().any(|part| text.contains(part))) {
            lines.push((at, message(text)));
        }
    }
    Ok(lines)
}

/// A line without the fields of etcd's JSON that say nothing here.
fn message(text: &str) -> String {
    match (text.split_once(": {"), text.split_once("\"msg\":\"")) {
        (Some((before, _)), Some((_, message))) => format!("{before}: {message}"),
        _ => text.to_owned(),
    }
}
