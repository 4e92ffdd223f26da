//! `bench`: compares the agent with the same work done by hand, alternately in one run; medians.
//!
//! A limit that is exceeded is reported and does not end the run. A measurement that fails is an error.
#![allow(clippy::print_stdout)]

mod backup;
mod crash;
mod damage;
mod form;
mod heal;
mod idle;
mod increments;
mod probe;
mod replace;
mod report;
mod restart;
mod restore;
mod trace;
mod upgrade;

use std::process::ExitCode;

use anyhow::{Result, bail};

use report::{Line, Report};

type Bench = (&'static str, fn() -> Result<Vec<Line>>);

const BENCHES: &[Bench] = &[
    ("form", form::run),
    ("heal_empty", heal::empty),
    ("heal_500mb", heal::filled),
    ("damage", damage::run),
    ("backup_1gib", backup::run),
    ("backup_4gib", backup::large),
    ("restore_1gib_1m", restore::run),
    ("crash_seen", crash::run),
    ("idle", idle::run),
    ("restart_rolling", restart::run),
    ("replace_dead", replace::run),
    ("upgrade_rolling", upgrade::run),
    ("loss_window", increments::loss_window),
    ("increments_cost", increments::cost),
    ("s3_requests", increments::requests),
];

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything could be measured.
fn run(names: &[String]) -> Result<bool> {
    let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
    if let Some(other) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no bench `{other}`; there are: {}", known.join(", "));
    }
    etcd_agent_lab::prepare()?;
    let mut report = Report::new()?;
    let mut all = true;
    for (name, bench) in BENCHES {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        eprintln!("bench: {name} (load {})", report::load());
        match bench() {
            Ok(lines) => report.add(lines)?,
            Err(error) => {
                eprintln!("bench: {name} could not be measured: {error:#}");
                all = false;
            }
        }
    }
    println!("written to {} (load {})", report.path().display(), report::load());
    Ok(all)
}
