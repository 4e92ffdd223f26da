//! From SIGKILL of etcd to the agent's own status reporting it; by hand: to systemd's line in the journal.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use etcd_agent_lab::{Host, Lab, PATIENCE, wait_for};
use serde_json::Value;

use super::form::form;
use super::probe;
use super::report::{Line, Samples};

const ROUNDS: usize = 7;
const EVERY: Duration = Duration::from_millis(1);

pub(crate) fn run() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-crash").hosts(3).boot()?;
    form(&lab, "")?;
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    for _ in 0..ROUNDS {
        probe::healthy(&lab, None, PATIENCE)?;
        // The work of the last round has to be finished, and etcd must not end more often than systemd
        // restarts a unit.
        std::thread::sleep(Duration::from_secs(8));
        let (killed, seen) = kill(lab.host(2)?)?;
        ours.add(seen - killed);
        by_hand.add(logged(lab.host(2)?, killed)? - killed);
    }
    lab.passed();
    Ok(vec![Line::new(
        "crash_seen",
        "ms",
        ours.median()?,
        Some(by_hand.median()?),
        50.0,
    )])
}

/// When etcd was killed, and when the agent's status of the unit first changed: both in ms.
fn kill(host: &Host) -> Result<(f64, f64)> {
    let pid = host.main_pid("etcd")?.context("etcd runs")?;
    // The host's files, including `/run`, through its init.
    let socket = format!("/proc/{}/root/run/etcd-agent/agent.sock", host.leader()?);
    let before = unit(Path::new(&socket))?;
    if before["value"]["main_pid"].as_u64() != Some(u64::from(pid)) {
        bail!("the agent does not know etcd's process {pid}: {before}");
    }
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                let now = unit(Path::new(&socket))?;
                if now["value"]["active"] != "active"
                    || now["value"]["main_pid"] != before["value"]["main_pid"]
                {
                    return now_ms();
                }
                std::thread::sleep(EVERY);
            }
            bail!("the agent did not see etcd's end")
        });
        std::thread::sleep(Duration::from_millis(50));
        let killed = host.sh(&format!("date +%s%N; kill -KILL {pid}"))?.ok()?;
        let killed = killed.text().parse::<f64>()? / 1e6;
        let seen = watcher.join().map_err(|_| anyhow!("the watcher panicked"))??;
        Ok((killed, seen))
    })
}

fn now_ms() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3)
}

/// The state of `etcd.service` that the agent reports on its admin socket.
fn unit(socket: &Path) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).context("the agent's socket")?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an HTTP answer")?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{head}\n{body}");
    }
    let status: Value = serde_json::from_str(body)?;
    Ok(status["node"]["unit"].clone())
}

/// The time when systemd logged the first end of etcd since `since`, in ms.
fn logged(host: &Host, since: f64) -> Result<f64> {
    wait_for("systemd's line on etcd's end", PATIENCE, || {
        let journal = host.journalctl(&["-o", "json", "-n", "200", "_PID=1", "UNIT=etcd.service"])?;
        Ok(journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|entry| {
                entry["MESSAGE"]
                    .as_str()
                    .is_some_and(|text| text.contains("Main process exited"))
            })
            .filter_map(|entry| {
                let time = entry
                    .get("_SOURCE_REALTIME_TIMESTAMP")
                    .or_else(|| entry.get("__REALTIME_TIMESTAMP"))?;
                Some(time.as_str()?.parse::<f64>().ok()? / 1e3)
            })
            .find(|time| *time >= since))
    })
}
