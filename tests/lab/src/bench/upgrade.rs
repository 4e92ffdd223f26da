//! etcd upgraded to the next minor on all members, one after the other, the raft leader last, while a client
//! that fails over writes, and downgraded again: by the agents, and by an operator with a script. Measures the
//! duration and the longest time between two acknowledged writes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use etcd_agent_lab::{Host, Lab, PATIENCE, wait_until};

use super::form::{form, form_by_hand};
use super::probe;
use super::report::{Line, Samples};
use super::restart::operator;
use super::trace;

const ROUNDS: usize = 5;
const OLDER: &str = "3.5.35";
const NEWER: &str = "3.6.16";
/// Connections are established, and etcd has converted its data to the new minor.
const SETTLED: Duration = Duration::from_secs(12);

/// How often the leader of etcd 3.6 looks whether a downgrade was enabled (`monitorVersionInterval` in etcd's
/// `server.go`).
const ETCD_LOOKS: Duration = Duration::from_secs(4);

/// During a conversion etcd reads its log since its last snapshot and stops all writes meanwhile
/// (`MinimalEtcdVersion` in etcd's `storage/wal/version.go`). With the default of 10,000 entries that takes 0.2 s on some
/// members by chance, in upgrades by hand too, and is the longest gap.
const SNAPSHOT_COUNT: &str = "1000";

/// The writes of each measurement, so that each database is as large as the other.
const WRITES: u64 = 8000;

/// Durations, and gaps between writes.
struct Measured {
    time: Samples,
    gap: Samples,
}

impl Measured {
    fn new() -> Self {
        Self {
            time: Samples::new("time"),
            gap: Samples::new("gap"),
        }
    }

    fn add(&mut self, (took, longest): (Duration, Duration)) {
        self.time.add_time(took);
        self.gap.add_time(longest);
    }

    fn lines(&self, by_hand: &Self, names: [&'static str; 2]) -> Result<[Line; 2]> {
        let (time, gap) = (by_hand.time.median()?, by_hand.gap.median()?);
        Ok([
            Line::new(names[0], "s", self.time.median()?, Some(time), 1.5 * time),
            Line::new(names[1], "s", self.gap.median()?, Some(gap), gap),
        ])
    }
}

pub(crate) fn run() -> Result<Vec<Line>> {
    let [mut up, mut up_by_hand] = [Measured::new(), Measured::new()];
    let [mut down, mut down_by_hand] = [Measured::new(), Measured::new()];
    for round in 0..ROUNDS {
        let with_agents = Lab::builder("bench-upgrade").hosts(3).boot()?;
        form(&with_agents, &format!("snapshot-count = \"{SNAPSHOT_COUNT}\"\n"))?;
        let order = |verb: &str, version: &str| {
            let host = with_agents.host(1)?;
            let argv = ["etcd-agent", verb, "--to", version, "--no-backup"];
            host.exec_for(3 * PATIENCE, &argv)?.ok().map(drop)
        };
        let upgraded = SystemTime::now();
        up.add(under_load(&with_agents, NEWER, || order("upgrade", NEWER))?);
        down.add(under_load(&with_agents, OLDER, || order("downgrade", OLDER))?);
        if round == 0 {
            trace::print(&with_agents, upgraded)?;
        }
        with_agents.passed();
        let alone = Lab::builder("bench-upgrade-by-hand").hosts(3).boot()?;
        let env = format!("ETCD_SNAPSHOT_COUNT={SNAPSHOT_COUNT}\n");
        form_by_hand(&alone, &env)?;
        alone.each(|host| alone.write_env_by_hand(host, "existing", &env))?;
        let to = |version| operator(&alone, |host| replace(host, version));
        up_by_hand.add(under_load(&alone, NEWER, || to(NEWER))?);
        down_by_hand.add(under_load(&alone, OLDER, || {
            enable_downgrade(&alone)?;
            to(OLDER)
        })?);
        alone.passed();
    }
    let up = up.lines(&up_by_hand, ["upgrade_rolling", "upgrade_rolling_gap"])?;
    let down = down.lines(&down_by_hand, ["downgrade_rolling", "downgrade_rolling_gap"])?;
    Ok(up.into_iter().chain(down).collect())
}

/// As etcd's page on downgrades has it: validate it, enable it, and wait until each server has logged that it has
/// converted its data (`UpdateStorageVersionIfNeeded` in etcd's `version/monitor.go`).
fn enable_downgrade(lab: &Lab) -> Result<()> {
    for verb in ["validate", "enable"] {
        // The etcdctl of 3.5 has no such command.
        let command = format!(
            "/opt/etcd-v{NEWER}/etcdctl --endpoints=https://localhost:2379 --cacert=/etc/etcd/tls/ca.crt \
             --cert=/etc/etcd/tls/node.crt --key=/etc/etcd/tls/node.key downgrade {verb} 3.5"
        );
        lab.host(1)?.sh(&command)?.ok()?;
    }
    let took = wait_until("etcd to convert its data", PATIENCE, || {
        let ready = |host: &Host| {
            let log = host.journalctl(&["-u", "etcd", "-o", "cat"]);
            log.is_ok_and(|log| log.contains("The server is ready to downgrade"))
        };
        Ok(lab.hosts().iter().all(ready))
    })?;
    eprintln!("bench:   of that for etcd's conversion {:.3}", took.as_secs_f64());
    Ok(())
}

/// The time until all members are healthy and run this version, and the longest gap between acknowledged
/// writes around it. All writes must be found afterwards.
fn under_load(
    lab: &Lab,
    version: &str,
    work: impl FnOnce() -> Result<()> + Send,
) -> Result<(Duration, Duration)> {
    probe::healthy(lab, None, PATIENCE)?;
    std::thread::sleep(SETTLED);
    let elected = elected(lab)?;
    let load = lab.start_dense_load("bench")?;
    load.wait_for(100, PATIENCE)?;
    // Otherwise a chance of up to 4 s decides who is faster: by hand and by the agents etcd looks 2 s later.
    let past = SystemTime::now().duration_since(elected)?.as_secs_f64();
    let looks = ETCD_LOOKS.as_secs_f64();
    let pause = (1.5 * looks - past % looks) % looks;
    std::thread::sleep(Duration::from_secs_f64(pause));
    let begun = Instant::now();
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let ended = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let all_run = || lab.hosts().iter().all(|host| runs(host, version));
        wait_until("all to run the version", 3 * PATIENCE, || {
            Ok(worker.is_finished() || all_run())
        })?;
        if worker.is_finished() && !all_run() {
            worker.join().map_err(|_| anyhow!("the work panicked"))??;
            bail!("the work has ended, and some run another version than {version}");
        }
        probe::healthy(lab, None, PATIENCE)?;
        let ended = Instant::now();
        worker.join().map_err(|_| anyhow!("the work panicked"))??;
        Ok::<_, anyhow::Error>(ended)
    })?;
    let left = WRITES.saturating_sub(load.acknowledged());
    load.wait_for(left.max(100), PATIENCE)?;
    let written = load.stop()?;
    written.verify_all(lab)?;
    // Neither the writer's first connection nor what happens afterwards, while it fills the database, is of the work.
    let (gap, from) = written.longest_gap_within(begun, ended);
    // To find it in the journals.
    eprintln!(
        "bench:   begun at {:.3}, the longest gap {:.3} after that",
        since.as_secs_f64(),
        from.saturating_duration_since(begun).as_secs_f64()
    );
    Ok((ended.duration_since(begun), gap))
}

/// When the raft leader was elected. etcd looks at the versions then, and after each interval.
fn elected(lab: &Lab) -> Result<SystemTime> {
    let log = lab
        .raft_leader()?
        .journalctl(&["-u", "etcd", "-o", "short-unix"])?;
    let line = log.lines().rfind(|line| line.contains("became leader at term"));
    let at = line.and_then(|line| line.split_whitespace().next());
    let at: f64 = at.context("no election in the leader's journal")?.parse()?;
    Ok(UNIX_EPOCH + Duration::from_secs_f64(at))
}

/// Whether etcd's process on this host was started from that version's binary.
fn runs(host: &Host, version: &str) -> bool {
    let pid = host.main_pid("etcd").ok().flatten();
    pid.and_then(|pid| host.exec(&["readlink", &format!("/proc/{pid}/exe")]).ok())
        .is_some_and(|link| link.stdout.contains(&format!("/opt/etcd-v{version}/")))
}

/// Selects the version in a drop-in and restarts etcd.
fn replace(host: &Host, version: &str) -> Result<()> {
    let drop_in = format!("[Service]\nExecStart=\nExecStart=/opt/etcd-v{version}/etcd\n");
    let path = "/etc/systemd/system/etcd.service.d/version.conf";
    host.write_file(path, drop_in, "0644", "root:root")?;
    host.systemctl(&["daemon-reload"])?.ok()?;
    host.systemctl(&["restart", "etcd"])?.ok().map(drop)
}
