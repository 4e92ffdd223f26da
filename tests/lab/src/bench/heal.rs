//! From the loss of one member's data, or the end of its etcd on damaged data, to three voters, and until all
//! of them serve: by the agents, and by a scripted operator who knows at once what has happened and makes no
//! mistake.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etcd_agent_lab::{Cmd, Host, Lab, PATIENCE};

use super::form::{form, form_by_hand};
use super::probe::{self, Values};
use super::report::{Line, Samples};

const ROUNDS: usize = 9;
/// etcd refuses changes of membership until its peers have been connected for 5 s.
const SETTLED: Duration = Duration::from_secs(7);

/// What happens to a member, and what its operator does before the member joins again.
pub(crate) struct Case {
    /// The names of two lines: the time until the new member votes, and until it serves.
    pub(crate) names: [&'static str; 2],
    /// The size of the database in bytes; 0 for an empty one.
    pub(crate) bytes: u64,
    /// Runs while the member runs, before the clock starts.
    pub(crate) prepare: fn(&Lab, &Host) -> Result<()>,
    /// The script on the member's host that starts the case; `$pid` is etcd's process there.
    pub(crate) lose: &'static str,
    /// The command on that host that the operator waits for.
    pub(crate) begins: &'static str,
    /// The command on that host by which the operator makes room for new data.
    pub(crate) clear: &'static str,
}

const LOST: Case = Case {
    names: [""; 2],
    bytes: 0,
    prepare: |_, _| Ok(()),
    lose: "rm -rf /var/lib/etcd/default; kill -KILL $pid",
    begins: "true",
    clear: "rm -rf /var/lib/etcd/default",
};

pub(crate) fn empty() -> Result<Vec<Line>> {
    run(&Case {
        names: ["heal_empty", "heal_empty_serves"],
        ..LOST
    })
}

pub(crate) fn filled() -> Result<Vec<Line>> {
    run(&Case {
        names: ["heal_500mb", "heal_500mb_serves"],
        bytes: 500 * 1024 * 1024,
        ..LOST
    })
}

/// Measures both sides alternately.
pub(crate) fn run(case: &Case) -> Result<Vec<Line>> {
    let bytes = case.bytes;
    // If a database has grown for longer than this benchmark, the leader no longer has its whole log and
    // sends a snapshot to the new member. These settings make both sides do so.
    let (settings, env) = if bytes == 0 {
        ("", "")
    } else {
        ("snapshot-count = 1000\n", "ETCD_SNAPSHOT_COUNT=1000\n")
    };
    let with_agents = Lab::builder("bench-heal").hosts(3).boot()?;
    form(&with_agents, settings)?;
    let alone = Lab::builder("bench-heal-by-hand").hosts(3).boot()?;
    form_by_hand(&alone, env)?;
    // As people leave it after setup, so that a member without data never bootstraps a new cluster.
    alone.each(|host| alone.write_env_by_hand(host, "existing", env))?;
    if bytes > 0 {
        probe::fill(&with_agents, bytes, Values::Noise)?;
        probe::fill(&alone, bytes, Values::Noise)?;
    }
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    let (mut ours_serves, mut by_hand_serves) = (Samples::new("ours serves"), Samples::new("by hand serves"));
    for _ in 0..ROUNDS {
        let (host, id) = victim(&with_agents)?;
        (case.prepare)(&with_agents, host)?;
        let begun = Instant::now();
        lose(host, case)?;
        probe::votes(&with_agents, host, id, PATIENCE)?;
        ours.add_time(begun.elapsed());
        probe::healthy(&with_agents, Some(id), PATIENCE)?;
        ours_serves.add_time(begun.elapsed());

        let (host, id) = victim(&alone)?;
        let script = operator(&alone, (host, id), env, case)?;
        (case.prepare)(&alone, host)?;
        let begun = Instant::now();
        lose(host, case)?;
        std::thread::scope(|scope| {
            let work = scope.spawn(|| Cmd::new("sh").args(["-ec", &script]).deadline(PATIENCE).ok());
            probe::votes(&alone, host, id, PATIENCE)?;
            by_hand.add_time(begun.elapsed());
            probe::healthy(&alone, Some(id), PATIENCE)?;
            by_hand_serves.add_time(begun.elapsed());
            match work.join() {
                Ok(done) => done.map(drop),
                Err(_) => bail!("the operator panicked"),
            }
        })?;
    }
    with_agents.passed();
    alone.passed();
    let [votes, serves] = case.names;
    let (voting, serving) = (by_hand.median()?, by_hand_serves.min()?);
    // In some rounds, on both sides, etcd answers clients only 7 s after it votes: the snapshot that it
    // received already had its own name, and it waits for that in vain (`publishV3` in etcd's `server.go`).
    // The number of such rounds is random.
    Ok(vec![
        Line::new(votes, "s", ours.median()?, Some(voting), voting + 0.5),
        Line::new(serves, "s", ours_serves.min()?, Some(serving), serving + 0.5),
    ])
}

/// A follower and its member ID, once all members have been connected for long enough.
fn victim(lab: &Lab) -> Result<(&Host, u64)> {
    let members = probe::healthy(lab, None, PATIENCE)?;
    std::thread::sleep(SETTLED);
    let leader = lab.raft_leader()?.name();
    let host = lab
        .hosts()
        .iter()
        .find(|host| host.name() != leader)
        .context("a follower")?;
    let id = members.iter().find(|(name, _)| name == host.name());
    Ok((host, id.context("its member")?.1))
}

fn lose(host: &Host, case: &Case) -> Result<()> {
    let pid = host.main_pid("etcd")?.context("etcd runs")?;
    host.sh(&format!("pid={pid}; {}", case.lose))?.ok()?;
    Ok(())
}

/// The operator's script, for a machine that reaches all hosts and has a shell on the victim's host.
fn operator(lab: &Lab, (host, id): (&Host, u64), env: &str, case: &Case) -> Result<String> {
    let survivors: Vec<&Host> = lab
        .hosts()
        .iter()
        .filter(|other| other.name() != host.name())
        .collect();
    let etcdctl = lab.etcdctl_line(&survivors)?;
    let inside = format!("nsenter -t {} -a", host.leader()?);
    let name = host.name();
    let content = lab.env_by_hand(host, "existing", env);
    let mut script = String::new();
    let _ = write!(
        script,
        "{inside} {begins}\n\
         {etcdctl} member remove {id:x} >&2\n\
         id=$({etcdctl} member add {name} --learner --peer-urls=https://{name}:2380 |\n\
             sed -n 's/^Member *\\([0-9a-f]*\\) added.*/\\1/p')\n\
         cat > {default} <<'END'\n{content}END\n\
         {inside} systemctl stop etcd\n\
         {inside} {clear}\n\
         {inside} systemctl reset-failed etcd || true\n\
         {inside} systemctl start --no-block etcd\n\
         until {etcdctl} member promote $id >&2; do sleep 0.02; done\n",
        default = host.disk().join("etc/default/etcd").display(),
        begins = case.begins,
        clear = case.clear,
    );
    Ok(script)
}
