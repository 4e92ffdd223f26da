//! From the start of three agents, or of three etcds with files written by hand, to three healthy voters.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use etcd_agent_lab::{Lab, PATIENCE, built_deb};

use super::probe;
use super::report::{Line, Samples};

const ROUNDS: usize = 5;

pub(crate) fn run() -> Result<Vec<Line>> {
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    for _ in 0..ROUNDS {
        let lab = Lab::builder("bench-form").hosts(3).boot()?;
        ours.add_time(form(&lab, "")?);
        lab.passed();
        let lab = Lab::builder("bench-form").hosts(3).boot()?;
        by_hand.add_time(form_by_hand(&lab, "")?);
        lab.passed();
    }
    let by_hand = by_hand.median()?;
    Ok(vec![Line::new(
        "form",
        "s",
        ours.median()?,
        Some(by_hand),
        by_hand + 0.5,
    )])
}

/// Forms a cluster by the agents; `settings` are lines of `[etcd.settings]`.
pub(crate) fn form(lab: &Lab, settings: &str) -> Result<Duration> {
    lab.s3().start()?;
    lab.install(&built_deb()?)?;
    lab.configure(|_, config| {
        if !settings.is_empty() {
            config.extra = format!("[etcd.settings]\n{settings}");
        }
    })?;
    timed(lab, || lab.start_agents())
}

/// The same by hand; `env` are lines of the environment file.
pub(crate) fn form_by_hand(lab: &Lab, env: &str) -> Result<Duration> {
    lab.prepare_by_hand(env)?;
    timed(lab, || lab.start_by_hand())
}

/// The time from the call of `start` until all are healthy, whether or not `start` has returned before.
fn timed(lab: &Lab, start: impl FnOnce() -> Result<()> + Send) -> Result<Duration> {
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let starter = scope.spawn(start);
        probe::healthy(lab, None, PATIENCE)?;
        let took = begun.elapsed();
        starter.join().map_err(|_| anyhow!("the start panicked"))??;
        Ok(took)
    })
}
