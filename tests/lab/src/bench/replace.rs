//! A member's host is dead and a spare is ready. The time from then to three healthy voters: by the agents,
//! counted from the end of `cluster.grace`, and by a scripted operator who knows at once whose place the
//! spare takes. Also the time until the agents find the dead node unreachable, which is when the grace
//! begins.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use etcd_agent_lab::{Cmd, Host, Lab, PATIENCE, built_deb};

use super::probe;
use super::report::{Line, Samples};
use super::trace;

const ROUNDS: usize = 3;
/// After this time etcd has given up its connections to the dead member. Until then a removal can block the raft
/// leader: it waits for a write to that member, whose timeout is 5 s, and the write begins to hang when the socket's
/// buffer is full, some 10 s after the death of an idle cluster's member.
const GRACE: Duration = Duration::from_secs(20);
const DATA: &str = "/var/lib/etcd/default";
/// etcd refuses changes of membership until its peers have been connected for 5 s.
const SETTLED: Duration = Duration::from_secs(7);

/// A peer is unreachable once its agent has sent nothing for 1 s and its host does not accept a connection to the
/// agent or to etcd, each within 0.4 s, for this node and for another.
const NOTICED: f64 = 2.0;

/// How much longer than by hand the agents may take, in seconds.
const LONGER: f64 = 0.5;

pub(crate) fn run() -> Result<Vec<Line>> {
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    let mut noticed = Samples::new("noticed");
    for _ in 0..ROUNDS {
        let (after_grace, before) = by_agents()?;
        ours.add_time(after_grace);
        noticed.add_time(before);
        by_hand.add_time(by_operator()?);
    }
    let by_hand = by_hand.median()?;
    Ok(vec![
        Line::new(
            "replace_dead",
            "s",
            ours.median()?,
            Some(by_hand),
            by_hand + LONGER,
        ),
        Line::new("replace_dead_noticed", "s", noticed.median()?, None, NOTICED),
    ])
}

/// The hosts of a round: the one that dies, and the members afterwards.
struct Cast<'a> {
    dead: &'a Host,
    dead_id: u64,
    after: Vec<&'a Host>,
}

fn cast<'a>(lab: &'a Lab, members: &[&'a Host], spare: &'a Host) -> Result<Cast<'a>> {
    let list = probe::healthy_on(lab, members, None, PATIENCE)?;
    std::thread::sleep(SETTLED);
    let leader = lab.raft_leader()?.name();
    let dead = *members
        .iter()
        .find(|host| host.name() != leader)
        .context("a follower")?;
    let dead_id = list
        .iter()
        .find(|(name, _)| name == dead.name())
        .context("its member")?
        .1;
    let living = members.iter().filter(|host| host.name() != dead.name()).copied();
    Ok(Cast {
        dead,
        dead_id,
        after: living.chain([spare]).collect(),
    })
}

/// The time from the end of the grace to three healthy voters, and from the host's death to the beginning of
/// the grace.
fn by_agents() -> Result<(Duration, Duration)> {
    let lab = Lab::builder("bench-replace").hosts(4).boot()?;
    lab.s3().start()?;
    lab.install(&built_deb()?)?;
    lab.configure(|_, config| {
        config.size = 3;
        config.membership = format!("grace = \"{}s\"\n", GRACE.as_secs());
    })?;
    lab.start_agents()?;
    lab.wait_healthy(3, PATIENCE)?;
    let (voters, _) = lab.members(lab.raft_leader()?)?;
    let (members, spares): (Vec<&Host>, Vec<&Host>) = lab
        .hosts()
        .iter()
        .partition(|host| voters.iter().any(|voter| voter == host.name()));
    let cast = cast(&lab, &members, spares.first().context("a spare")?)?;
    let died = SystemTime::now();
    cast.dead.kill()?;
    probe::healthy_on(&lab, &cast.after, Some(cast.dead_id), GRACE + PATIENCE)?;
    let replaced = SystemTime::now();
    let grace = grace_began(&lab, died)?;
    trace::print(&lab, died)?;
    lab.passed();
    let after = replaced.duration_since(grace + GRACE).unwrap_or_default();
    Ok((after, grace.duration_since(died)?))
}

/// The time in the journal when the coordinator first reported the member as unreachable for every observer.
fn grace_began(lab: &Lab, after: SystemTime) -> Result<SystemTime> {
    let mut first: Option<SystemTime> = None;
    for host in lab.hosts() {
        let journal = host.journalctl(&["-u", "etcd-agent", "-o", "short-unix"])?;
        for line in journal.lines().filter(|line| line.contains("counts as dead in")) {
            let seconds = line.split(' ').next().unwrap_or_default();
            let at = UNIX_EPOCH + Duration::from_secs_f64(seconds.parse().context("a time")?);
            if at > after && first.is_none_or(|first| at < first) {
                first = Some(at);
            }
        }
    }
    first.context("no agent reported the member as unreachable")
}

fn by_operator() -> Result<Duration> {
    let lab = Lab::builder("bench-replace-by-hand").hosts(4).boot()?;
    lab.prepare_by_hand("")?;
    let members: Vec<&Host> = lab.hosts().iter().take(3).collect();
    let spare = lab.host(4)?;
    let three = "ETCD_INITIAL_CLUSTER=n1=https://n1:2380,n2=https://n2:2380,n3=https://n3:2380\n";
    lab.each(|host| {
        lab.write_env_by_hand(host, "new", three)?;
        if host.name() == spare.name() {
            return Ok(());
        }
        host.systemctl(&["start", "etcd.service"])?.ok().map(drop)
    })?;
    let cast = cast(&lab, &members, spare)?;
    let script = operator(&lab, &cast, spare)?;
    cast.dead.kill()?;
    // The operator arrives long after the other members have noticed.
    std::thread::sleep(GRACE);
    let begun = Instant::now();
    Cmd::new("sh").args(["-ec", &script]).deadline(PATIENCE).ok()?;
    probe::healthy_on(&lab, &cast.after, Some(cast.dead_id), PATIENCE)?;
    let took = begun.elapsed();
    lab.passed();
    Ok(took)
}

/// The operator's script: remove the dead member, then add the spare, which etcd would refuse before.
fn operator(lab: &Lab, cast: &Cast<'_>, spare: &Host) -> Result<String> {
    let living: Vec<&Host> = cast
        .after
        .iter()
        .filter(|host| host.name() != spare.name())
        .copied()
        .collect();
    let etcdctl = lab.etcdctl_line(&living)?;
    let inside = format!("nsenter -t {} -a", spare.leader()?);
    let name = spare.name();
    let cluster: Vec<_> = living
        .iter()
        .chain([&spare])
        .map(|host| format!("{0}=https://{0}:2380", host.name()))
        .collect();
    let cluster = format!("ETCD_INITIAL_CLUSTER={}\n", cluster.join(","));
    let content = lab.env_by_hand(spare, "existing", &cluster);
    let mut script = String::new();
    let _ = write!(
        script,
        "{etcdctl} member remove {dead:x} >&2\n\
         id=$({etcdctl} member add {name} --learner --peer-urls=https://{name}:2380 |\n\
             sed -n 's/^Member *\\([0-9a-f]*\\) added.*/\\1/p')\n\
         cat > {default} <<'END'\n{content}END\n\
         {inside} rm -rf {DATA}\n\
         {inside} systemctl start --no-block etcd\n\
         until {etcdctl} member promote $id >&2; do sleep 0.02; done\n",
        default = spare.disk().join("etc/default/etcd").display(),
        dead = cast.dead_id,
    );
    Ok(script)
}
