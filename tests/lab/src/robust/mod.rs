//! etcd's own robustness traffic and validators against a cluster whose agents work meanwhile: S60.
//!
//! Source: <https://github.com/etcd-io/etcd/tree/main/tests/robustness>, as the Go module `go.etcd.io/etcd/tests/v3`.

mod logs;
mod operation;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cmd::{Cmd, Output};
use crate::golang;
use crate::host::Host;
use crate::lab::{Lab, PATIENCE, logs_dir};
use crate::random::Random;
use logs::Logs;
use operation::Order;

/// How many members there are, but while the cluster is resized.
const MEMBERS: usize = 3;

/// A member that is out of reach for so long is replaced by a spare, where there is one.
const GRACE: Duration = Duration::from_secs(3);

/// What the traffic may need after its time, and what the validators may.
const LONGEST: Duration = Duration::from_mins(10);

/// How many of the last lines of a validator are shown; its log has all.
const SHOWN: usize = 30;

/// What one round of `make robust` is.
#[derive(Debug, Clone)]
pub struct Robust {
    /// The version of etcd, one of [`crate::ETCD_VERSIONS`].
    pub etcd: String,
    /// `kubernetes` or `etcd`: whose requests are imitated, at most 200 a second.
    pub traffic: String,
    /// How many hosts, at least 3. All beyond 3 are spares: with 1 a dead host is replaced, with 2 the cluster resized.
    pub hosts: u8,
    /// How long requests are sent.
    pub duration: Duration,
    /// Decides which operation follows which, and whom each hits. The requests are random each time.
    pub seed: u64,
    /// How many operations there are at most; none begins after the traffic's time.
    pub operations: usize,
}

impl Robust {
    /// Runs one round; what it does goes to standard error. An error when etcd's validators refuse the history, or when
    /// the cluster does not become whole again. What the clients saw and the members logged is kept then.
    pub fn run(&self, deb: &Path) -> Result<()> {
        if usize::from(self.hosts) < MEMBERS {
            bail!("a round takes at least {MEMBERS} hosts, not {}", self.hosts);
        }
        let program = golang::robust()?;
        let dir = logs_dir().join(format!("robust-{}-{}-{}", self.etcd, self.traffic, self.seed));
        crate::cache::remove_tree(&dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let lab = self.form(deb)?;
        let round = Round {
            lab: &lab,
            logs: Logs::new(dir.join("members")),
        };
        let report = dir.join("report");
        let sent = std::thread::scope(|scope| {
            let traffic = scope.spawn(|| self.send(&lab, &program, &report));
            let operated = round.operate(self);
            let Ok(sent) = traffic.join() else {
                bail!("the traffic panicked")
            };
            operated.and(sent)
        })?;
        eprintln!("robust: {}", sent.trim_end());
        lab.each(|host| host.power_off().map(drop))?;
        for host in lab.hosts() {
            round.logs.keep_all(host)?;
        }
        let output = Cmd::new(program)
            .arg("validate")
            .arg(format!("--report={}", report.display()))
            .args(round.logs.all()?)
            .deadline(LONGEST)
            .run()?;
        accepted(&output, &dir)?;
        eprintln!("robust: {}, in {:.1} s", output.text(), output.took.as_secs_f64());
        lab.passed();
        crate::cache::remove_tree(&dir)
    }

    fn form(&self, deb: &Path) -> Result<Lab> {
        let lab = Lab::builder("robust")
            .hosts(self.hosts)
            .etcd(&self.etcd)
            .package(deb)
            .plain()
            .boot()?;
        lab.s3().start()?;
        lab.configure(|_, config| {
            config.membership = format!("grace = \"{}s\"\n", GRACE.as_secs());
        })?;
        // Without a size in the configuration it is 3, and `spec set` changes it in the store.
        let edit = ["sed", "-i", "/^size = /d", "/etc/etcd-agent/config.toml"];
        lab.each(|host| host.exec(&edit)?.ok().map(drop))?;
        lab.start_agents()?;
        lab.wait_healthy(MEMBERS, PATIENCE)?;
        Ok(lab)
    }

    /// Sends requests to all hosts, members or not, until the time is over.
    fn send(&self, lab: &Lab, program: &Path, report: &Path) -> Result<String> {
        let endpoints: Vec<String> = lab.hosts().iter().map(|host| lab.client_url(host)).collect();
        let output = Cmd::new("nsenter")
            .arg(format!("--net=/run/netns/{}", lab.net().outside_namespace()))
            .arg(program)
            .arg("traffic")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .arg(format!("--members={MEMBERS}"))
            .arg(format!("--traffic={}", self.traffic))
            .arg(format!("--duration={}s", self.duration.as_secs()))
            .arg(format!("--report={}", report.display()))
            .deadline(self.duration + LONGEST)
            .ok()?;
        Ok(output.stdout)
    }
}

struct Round<'a> {
    lab: &'a Lab,
    logs: Logs,
}

impl Round<'_> {
    /// One operation after the other, each begun when the cluster is whole again.
    fn operate(&self, robust: &Robust) -> Result<()> {
        let begun = Instant::now();
        let since = || begun.elapsed().as_secs_f64();
        let mut order = Order::new(robust.seed, usize::from(robust.hosts));
        let mut whom = Random::new(!robust.seed);
        let mut done = 0;
        while done < robust.operations && begun.elapsed() < robust.duration {
            let operation = order.next_one();
            let members = self.members()?;
            let host = *whom.choose(&members).context("there is no member")?;
            eprintln!("robust: {:>5.1} s {operation:?}, {}", since(), host.name());
            self.carry_out(operation, host)
                .and_then(|()| self.lab.wait_healthy(MEMBERS, PATIENCE))
                .with_context(|| format!("{operation:?}, {}", host.name()))?;
            done += 1;
        }
        eprintln!("robust: {:>5.1} s {done} operations are done", since());
        Ok(())
    }

    /// The hosts of the members, in order.
    fn members(&self) -> Result<Vec<&Host>> {
        let (voters, _) = self.lab.members(self.lab.raft_leader()?)?;
        let hosts = self.lab.hosts().iter();
        Ok(hosts
            .filter(|host| voters.iter().any(|voter| voter == host.name()))
            .collect())
    }
}

/// An error with the end of what the validators said when they refuse the history; all of it is in a file of `dir`.
fn accepted(output: &Output, dir: &Path) -> Result<()> {
    if output.success() {
        return Ok(());
    }
    let all = format!("{}{}", output.stdout, output.stderr);
    let log = dir.join("validators.log");
    fs::write(&log, &all).with_context(|| format!("writing {}", log.display()))?;
    let lines: Vec<&str> = all.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default();
    bail!(
        "etcd's validators refuse the history, which is kept in {}:\n{}",
        dir.display(),
        shown.join("\n")
    )
}
