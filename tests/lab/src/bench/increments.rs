//! The value and the cost of increments: how much is lost when all hosts die at a random moment, how much
//! following etcd slows its writes, and the number of requests to the store.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use etcd_agent_lab::{Host, Lab, PATIENCE, S3, wait_until};
use etcd_client::PutOptions;

use super::form::form;
use super::probe;
use super::report::{Line, Samples};

const DEATHS: usize = 20;
/// Each waits for its last write and 2 ms more. Together they write about 1,000 times per second.
const WRITERS: usize = 16;
/// A death comes this long after the writers' start, plus a random time up to the same length.
const AT_LEAST: Duration = Duration::from_secs(3);

/// The time from the first acknowledged write that is in no backup to the death of all hosts.
pub(crate) fn loss_window() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-loss").hosts(3).boot()?;
    form(&lab, "")?;
    let mut window = Samples::new("lost");
    let mut rate = Samples::new("writes per second");
    for round in 0..DEATHS {
        probe::healthy(&lab, None, PATIENCE)?;
        let before = revision(&lab)?;
        // Some agent follows, and the store has everything written before.
        wait_until("what was written to be stored", PATIENCE, || {
            Ok(stored(&lab)? >= before)
        })?;
        let loads = (0..WRITERS)
            .map(|writer| lab.start_dense_load(&format!("loss/{round}/{writer}/")))
            .collect::<Result<Vec<_>>>()?;
        let begun = Instant::now();
        std::thread::sleep(AT_LEAST + at_random(AT_LEAST)?);
        lab.each(Host::kill)?;
        let died = begun.elapsed();
        let mut acknowledged = Vec::new();
        for load in loads {
            acknowledged.extend(load.stop()?.times);
        }
        acknowledged.retain(|time| *time <= died);
        acknowledged.sort();
        rate.add(count(acknowledged.len())? / died.as_secs_f64());
        // Each write is one revision.
        let kept = usize::try_from(stored(&lab)?.saturating_sub(before))?;
        let first_lost = acknowledged.get(kept).copied().unwrap_or(died);
        window.add_time(died.saturating_sub(first_lost));
        lab.each(|host| host.boot().map(drop))?;
    }
    lab.passed();
    eprintln!(
        "bench: loss_window under {:.0} writes in a second",
        rate.median()?
    );
    Ok(vec![
        Line::new("loss_window", "s", window.median()?, None, 1.0),
        Line::new("loss_window_longest", "s", window.max()?, None, 2.0),
    ])
}

/// The performance of a shared machine changes by a tenth from one turn to the next, so there are many short
/// turns.
const TURNS: usize = 60;
const TURN: Duration = Duration::from_secs(3);
const SETTLES: Duration = Duration::from_secs(1);
const AT_ONCE: u64 = 32;
/// The factor by which etcd's writes may become slower.
const COST: f64 = 1.03;

/// The cost of a write in a cluster with increments and without, measured alternately: its time, and the
/// machine's CPU time, on which other tenants of the machine have less effect.
pub(crate) fn cost() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-increments").hosts(3).boot()?;
    // Backups are not kept on the disk that etcd waits for.
    lab.s3().in_memory(1)?;
    form(&lab, "")?;
    // The first writes of a cluster are slower than later ones.
    writes(&lab, "cost/warm")?;
    let (mut taken, mut cpu) = ([0.0; 2], [0.0; 2]);
    for turn in 0..TURNS {
        // The order alternates, because the database grows all the time.
        for increments in [turn % 2 == 0, turn % 2 != 0] {
            configure(&lab, &format!("[backup]\nincrements = {increments}\n"))?;
            let before = revision(&lab)?;
            if increments {
                wait_until("somebody to follow", PATIENCE, || Ok(stored(&lab)? >= before))?;
            }
            std::thread::sleep(SETTLES);
            let busy = probe::machine_busy()?;
            let writes = count(writes(&lab, &format!("cost/{turn}/{increments}"))?)?;
            let busy = probe::machine_busy()?.saturating_sub(busy);
            cpu[usize::from(increments)] += busy.as_secs_f64();
            taken[usize::from(increments)] += writes;
            eprintln!("bench:   increments {increments}: {writes} writes");
        }
    }
    lab.passed();
    let seconds = TURN.as_secs_f64() * count(TURNS)?;
    // In every line more is worse.
    let line =
        |name, unit, [by_hand, ours]: [f64; 2]| Line::new(name, unit, ours, Some(by_hand), COST * by_hand);
    Ok(vec![
        line(
            "increments_cost",
            "ms per 1000 writes",
            taken.map(|taken| seconds * 1e6 / taken),
        ),
        line(
            "increments_cost_cpu",
            "ms of CPU per 1000 writes",
            [0, 1].map(|n| cpu[n] * 1e6 / taken[n]),
        ),
    ])
}

/// Makes all agents reload their configuration with this fragment.
fn configure(lab: &Lab, fragment: &str) -> Result<()> {
    lab.each(|host| {
        let path = "/etc/etcd-agent/config.d/60-bench.toml";
        host.write_file(path, fragment, "0644", "root:root")?;
        host.systemctl(&["reload", "etcd-agent"])?.ok().map(drop)
    })
}

/// The number of acknowledged writes in a turn, by clients that each wait for their last write.
fn writes(lab: &Lab, prefix: &str) -> Result<usize> {
    let leader = lab.raft_leader()?;
    probe::outside(lab, || async {
        let until = Instant::now() + TURN;
        let mut writers = Vec::new();
        for writer in 0..AT_ONCE {
            let mut client = probe::client(lab, leader).await?;
            let prefix = format!("{prefix}/{writer}");
            writers.push(tokio::spawn(async move {
                let mut taken = 0_usize;
                while Instant::now() < until {
                    let key = format!("{prefix}/{taken}");
                    client.put(key, [b'x'; 256], None::<PutOptions>).await?;
                    taken += 1;
                }
                anyhow::Ok(taken)
            }));
        }
        let mut taken = 0;
        for writer in writers {
            taken += writer.await??;
        }
        Ok(taken)
    })
}

/// An agent looks at the store again five minutes after its start, and rarely after that.
const SETTLED: Duration = Duration::from_secs(330);
/// Longer than the time between two looks during writes, and longer than several of `EVERY`.
const QUIET: Duration = Duration::from_mins(6);
const BUSY: Duration = Duration::from_mins(1);
/// The interval of full backups.
const EVERY: &str = "[backup]\ninterval = \"1m\"\n";

/// Requests to the store per hour, while nothing is written and during continuous writes: those for
/// increments, and all.
pub(crate) fn requests() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-requests").hosts(3).boot()?;
    form(&lab, "")?;
    configure(&lab, EVERY)?;
    let before = revision(&lab)?;
    wait_until("somebody to follow", PATIENCE, || Ok(stored(&lab)? >= before))?;
    std::thread::sleep(SETTLED);
    let (idle, idle_all) = in_hour(&lab, QUIET)?;
    let load = lab.start_dense_load("requests")?;
    let (busy, busy_all) = in_hour(&lab, BUSY)?;
    load.stop()?;
    lab.passed();
    let line = |name, value, limit| Line::new(name, "per hour", value, None, limit);
    Ok(vec![
        line("s3_requests_idle", idle, 0.0),
        line("s3_requests_idle_all", idle_all, 0.0),
        // One per interval of a second, and a full backup each minute.
        line("s3_requests_busy", busy, 3700.0),
        line("s3_requests_busy_all", busy_all, 6000.0),
    ])
}

/// The requests in the S3 server's log during this time, for increments and in total, per hour.
fn in_hour(lab: &Lab, time: Duration) -> Result<(f64, f64)> {
    let so_far = || -> Result<(usize, usize)> {
        let log = std::fs::read_to_string(lab.s3().log())?;
        let requests = || log.lines().filter(|line| line.contains(S3::BUCKET));
        let increments = requests().filter(|line| line.contains("/increments/"));
        Ok((increments.count(), requests().count()))
    };
    let (increments, all) = so_far()?;
    let begun = Instant::now();
    std::thread::sleep(time);
    let hours = begun.elapsed().as_secs_f64() / 3600.0;
    let (increments_now, all_now) = so_far()?;
    Ok((
        count(increments_now - increments)? / hours,
        count(all_now - all)? / hours,
    ))
}

/// The newest revision in a full backup or an increment of the store.
pub(crate) fn stored(lab: &Lab) -> Result<u64> {
    let mut newest = 0;
    for key in lab.s3().keys()? {
        let name = key.rsplit('/').next().unwrap_or_default();
        let last = name.strip_suffix(".zst").and_then(|name| name.split_once('-'));
        if let Some((_, last)) = last {
            newest = newest.max(last.parse().unwrap_or(0));
        } else if name == "backup.json" {
            let manifest: serde_json::Value = serde_json::from_str(&lab.s3().read(&key)?)?;
            newest = newest.max(manifest["revision"].as_u64().context("a revision")?);
        }
    }
    Ok(newest)
}

pub(crate) fn revision(lab: &Lab) -> Result<u64> {
    let hosts: Vec<_> = lab.hosts().iter().collect();
    let args = ["get", "x", "-w", "json", "--command-timeout=3s"];
    let answer = lab.etcdctl(&hosts, &args)?.ok()?;
    let answer: serde_json::Value = serde_json::from_str(&answer.stdout)?;
    answer["header"]["revision"].as_u64().context("a revision")
}

fn at_random(most: Duration) -> Result<Duration> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
    Ok(most.mul_f64(f64::from(nanos % 1000) / 1000.0))
}

fn count(number: usize) -> Result<f64> {
    let number = u32::try_from(number).map_err(|_| anyhow!("{number} is too much"))?;
    Ok(f64::from(number))
}
