//! All etcds restarted one after the other, the raft leader last, while a client that fails over writes: by
//! the agents, and by an operator with a script. Measures the duration and the longest time between two
//! acknowledged writes.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use etcd_agent_lab::{Host, Lab, PATIENCE};

use super::form::{form, form_by_hand};
use super::probe;
use super::report::{Line, Samples};
use super::trace;

const ROUNDS: usize = 5;
/// Connections are established, and the pause of a new leader's agent is over.
const SETTLED: Duration = Duration::from_secs(5);

pub(crate) fn run() -> Result<Vec<Line>> {
    let with_agents = Lab::builder("bench-restart").hosts(3).boot()?;
    form(&with_agents, "")?;
    let alone = Lab::builder("bench-restart-by-hand").hosts(3).boot()?;
    form_by_hand(&alone, "")?;
    alone.each(|host| alone.write_env_by_hand(host, "existing", ""))?;
    let (mut time, mut time_by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    let (mut gap, mut gap_by_hand) = (Samples::new("our gap"), Samples::new("gap by hand"));
    for round in 0..ROUNDS {
        let begun = SystemTime::now();
        let (took, longest) = under_load(&with_agents, || {
            let argv = ["etcd-agent", "restart", "--rolling", "--timeout", "2m"];
            with_agents.host(1)?.exec_for(3 * PATIENCE, &argv)?.ok().map(drop)
        })?;
        time.add_time(took);
        gap.add_time(longest);
        if round == 0 {
            trace::print(&with_agents, begun)?;
        }
        let (took, longest) = under_load(&alone, || operator(&alone, restart))?;
        time_by_hand.add_time(took);
        gap_by_hand.add_time(longest);
    }
    with_agents.passed();
    alone.passed();
    let (by_hand, gap_hand) = (time_by_hand.median()?, gap_by_hand.median()?);
    Ok(vec![
        Line::new(
            "restart_rolling",
            "s",
            time.median()?,
            Some(by_hand),
            1.5 * by_hand,
        ),
        Line::new(
            "restart_rolling_gap",
            "s",
            gap.median()?,
            Some(gap_hand),
            2.0 * gap_hand,
        ),
    ])
}

/// How long `work` takes, and the longest gap between acknowledged writes around it. All writes must be found
/// afterwards.
fn under_load(lab: &Lab, work: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    probe::healthy(lab, None, PATIENCE)?;
    std::thread::sleep(SETTLED);
    let load = lab.start_dense_load("bench")?;
    load.wait_for(100, PATIENCE)?;
    let begun = Instant::now();
    work()?;
    probe::healthy(lab, None, PATIENCE)?;
    let ended = Instant::now();
    load.wait_for(100, PATIENCE)?;
    let written = load.stop()?;
    written.verify_all(lab)?;
    let (gap, _) = written.longest_gap_within(begun, ended);
    Ok((ended.duration_since(begun), gap))
}

fn restart(host: &Host) -> Result<()> {
    host.systemctl(&["restart", "etcd"])?.ok().map(drop)
}

/// Restarts the followers one after the other by `restart`, then the leader, after another member has become
/// leader. systemd reports etcd as started once it serves again.
pub(crate) fn operator(lab: &Lab, restart: impl Fn(&Host) -> Result<()>) -> Result<()> {
    let leader = lab.raft_leader()?;
    let followers: Vec<_> = lab
        .hosts()
        .iter()
        .filter(|host| host.name() != leader.name())
        .collect();
    for host in &followers {
        restart(host)?;
        probe::healthy(lab, None, PATIENCE)?;
    }
    let members = probe::healthy(lab, None, PATIENCE)?;
    let to = followers.first().context("a follower")?.name();
    let (_, id) = members
        .iter()
        .find(|(name, _)| name == to)
        .context("its member")?;
    lab.etcdctl(&[leader], &["move-leader", &format!("{id:x}")])?
        .ok()?;
    restart(leader)
}
