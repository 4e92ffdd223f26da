//! etcd upgraded to the next minor on all members, one after the other, the raft leader last, while a client
//! that fails over writes: by the agents, and by an operator with a script. Measures the duration and the
//! longest time between two acknowledged writes.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use etcd_agent_lab::{Host, Lab, PATIENCE, wait_until};

use super::form::{form, form_by_hand};
use super::probe;
use super::report::{Line, Samples};
use super::restart::operator;

/// Each round has new clusters: etcd goes back to no older minor.
const ROUNDS: usize = 3;
const STEPS: [&str; 1] = ["3.6.16"];
/// Connections are established, and etcd has converted its data to the new minor.
const SETTLED: Duration = Duration::from_secs(12);

pub(crate) fn run() -> Result<Vec<Line>> {
    let (mut time, mut time_by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    let (mut gap, mut gap_by_hand) = (Samples::new("our gap"), Samples::new("gap by hand"));
    for _ in 0..ROUNDS {
        let with_agents = Lab::builder("bench-upgrade").hosts(3).boot()?;
        form(&with_agents, "")?;
        for version in STEPS {
            let (took, longest) = under_load(&with_agents, version, || {
                let host = with_agents.host(1)?;
                let argv = ["etcd-agent", "upgrade", "--to", version, "--no-backup"];
                host.exec_for(3 * PATIENCE, &argv)?.ok().map(drop)
            })?;
            time.add_time(took);
            gap.add_time(longest);
        }
        with_agents.passed();
        let alone = Lab::builder("bench-upgrade-by-hand").hosts(3).boot()?;
        form_by_hand(&alone, "")?;
        alone.each(|host| alone.write_env_by_hand(host, "existing", ""))?;
        for version in STEPS {
            let (took, longest) = under_load(&alone, version, || {
                operator(&alone, |host| replace(host, version))
            })?;
            time_by_hand.add_time(took);
            gap_by_hand.add_time(longest);
        }
        alone.passed();
    }
    let (by_hand, gap_hand) = (time_by_hand.median()?, gap_by_hand.median()?);
    Ok(vec![
        Line::new(
            "upgrade_rolling",
            "s",
            time.median()?,
            Some(by_hand),
            1.5 * by_hand,
        ),
        Line::new(
            "upgrade_rolling_gap",
            "s",
            gap.median()?,
            Some(gap_hand),
            gap_hand,
        ),
    ])
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
    let load = lab.start_load("bench")?;
    load.wait_for(100, PATIENCE)?;
    let took = std::thread::scope(|scope| {
        let begun = Instant::now();
        let worker = scope.spawn(work);
        wait_until("all to run the version", 3 * PATIENCE, || {
            Ok(lab.hosts().iter().all(|host| runs(host, version)))
        })?;
        probe::healthy(lab, None, PATIENCE)?;
        let took = begun.elapsed();
        worker.join().map_err(|_| anyhow!("the work panicked"))??;
        Ok::<_, anyhow::Error>(took)
    })?;
    load.wait_for(100, PATIENCE)?;
    let written = load.stop()?;
    written.verify_all(lab)?;
    Ok((took, written.longest_gap))
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
