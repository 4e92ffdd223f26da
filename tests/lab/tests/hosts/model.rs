//! Compares the simulator's model of etcd with real etcd: runs the histories of `tests/sim/histories.txt`,
//! which state the model's answer to each step, on real etcd without systemd and without an agent.
//!
//! The model lets ten seconds pass before it answers a question for a state. Here no step waits that long: an
//! event is the answer as soon as it has happened, and only the absence of an event is watched for a while.

mod real_etcd;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_agent_lab::Lab;

use real_etcd::{Real, Step};

const HISTORIES: &str = include_str!("../../../sim/histories.txt");

/// A history with a different result is run once more: on an overloaded machine etcd may hold an election
/// that no history has. A wrong model fails each time.
const TRIES: usize = 2;
/// The number of histories that run concurrently: an etcd waits most of the time.
const WORKERS: usize = 5;

fn histories() -> Vec<(&'static str, Vec<Step>)> {
    let mut all: Vec<(&str, Vec<Step>)> = Vec::new();
    let lines = HISTORIES.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("= ") {
            all.push((name, Vec::new()));
            continue;
        }
        let step = line.split_once(" => ").unwrap_or((line, ""));
        all.last_mut().expect("a name comes first").1.push(step);
    }
    all
}

fn holds_against(version: &str) {
    let lab = Lab::builder(&format!("model-{version}"))
        .etcd(version)
        .plain()
        .boot()
        .unwrap();
    let (program, dir) = (lab.etcd_program("etcd"), lab.dir());
    let all = histories();
    assert!(all.len() >= 20, "{} histories", all.len());
    let next = AtomicUsize::new(0);
    let differ = Mutex::new(String::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let Some((name, steps)) = all.get(number) else {
                return;
            };
            let mut otherwise = Vec::new();
            while otherwise.len() < TRIES {
                let home = dir.join(format!("h{number}-{}", otherwise.len()));
                let number = u8::try_from(number + 1).expect("few histories");
                let outcome = Real::new(&program, &home, number).run(steps);
                let Err(text) = outcome else {
                    break;
                };
                eprintln!("etcd {version}: {name}: {text}");
                otherwise.push(text.lines().next().unwrap_or_default().to_owned());
            }
            if otherwise.len() == TRIES {
                let mut differ = differ.lock().unwrap();
                let _ = writeln!(differ, "{name}: {}", otherwise.join("; again: "));
            }
        }
    };
    // In a network namespace of the lab, which threads inherit from the thread that starts them.
    lab.outside(|| {
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(work);
            }
        });
        Ok(())
    })
    .unwrap();
    let differ = differ.into_inner().unwrap();
    assert!(
        differ.is_empty(),
        "etcd {version} and the model answer differently:\n{differ}"
    );
    lab.passed();
}

#[test]
fn the_model_answers_as_etcd_3_5() {
    holds_against("3.5.35");
}

#[test]
fn the_model_answers_as_etcd_3_6() {
    holds_against("3.6.16");
}

#[test]
fn the_model_answers_as_etcd_3_7() {
    holds_against("3.7.3");
}
