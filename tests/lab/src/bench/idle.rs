//! The CPU time and memory that the agent uses on an idle host, and what three idle agents send each other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use etcd_agent_lab::{Host, Lab, PATIENCE};

use super::backup::memory;
use super::form::form;
use super::probe;
use super::report::{Line, Samples};

const SETTLED: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_mins(1);
/// The port of the agents (`api.port`).
const API_PORT: u16 = 2378;
/// What three agents sent each other when they answered every 10 s and noticed a dead host within 12 s.
const TRAFFIC: f64 = 1743.0;

pub(crate) fn run() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-idle").hosts(3).boot()?;
    form(&lab, "")?;
    std::thread::sleep(SETTLED);
    probe::healthy(&lab, None, PATIENCE)?;
    let ticks = f64::from(probe::ticks_in_a_second()?);
    let all = || lab.hosts().iter().map(cpu_ticks).collect::<Result<Vec<_>>>();
    lab.net().meter(API_PORT)?;
    let (before, begun) = (all()?, Instant::now());
    std::thread::sleep(WINDOW);
    #[allow(clippy::cast_precision_loss)]
    let sent = lab.net().metered()? as f64;
    let (after, took) = (all()?, begun.elapsed().as_secs_f64());
    let (mut cpu, mut resident) = (Samples::new("% of a core"), Samples::new("resident MB"));
    for (before, after) in before.iter().zip(&after) {
        cpu.add((after - before) / ticks / took * 100.0);
    }
    for host in lab.hosts() {
        resident.add(memory(host, "VmRSS:")? * 1.048_576);
    }
    probe::healthy(&lab, None, PATIENCE)?;
    lab.passed();
    // The coordinator has the most work, so the maximum counts.
    Ok(vec![
        Line::new("idle_cpu", "% of a core", cpu.max()?, None, 0.2),
        Line::new("idle_memory", "MB", resident.max()?, None, 24.0),
        Line::new("idle_traffic", "bytes/s", sent / took, None, TRAFFIC),
    ])
}

/// User and system time of the agent, in clock ticks.
fn cpu_ticks(host: &Host) -> Result<f64> {
    let pid = host.main_pid("etcd-agent")?.context("the agent runs")?;
    let stat = host.read_file(&format!("/proc/{pid}/stat"))?;
    // The fields after the name in parentheses, which may contain anything. State is the first.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Result<f64> { Ok(fields.next().context("a time")?.parse()?) };
    Ok(next()? + next()?)
}
