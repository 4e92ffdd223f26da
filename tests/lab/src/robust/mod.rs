//! Runs etcd's own robustness traffic and validators against a cluster whose agents work at the same time:
//! S60.
//!
//! Source: <https://github.com/etcd-io/etcd/tree/main/tests/robustness>, as the Go module
//! `go.etcd.io/etcd/tests/v3`.

mod logs;
mod operation;
mod round;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cmd::{Cmd, Output};
use crate::golang;
use crate::lab::{Lab, PATIENCE, logs_dir};
use crate::random::Random;
use logs::Logs;
use operation::{MEMBERS, Order};
use round::Round;

/// A member that is unreachable for this long is replaced by a spare, if there is one.
const GRACE: Duration = Duration::from_secs(3);

/// The additional time that the traffic may take after its duration, and the time limit of the validators.
const LONGEST: Duration = Duration::from_mins(10);

/// The number of last lines shown from a validator; its log has all of them.
const SHOWN: usize = 30;

/// One round of `make robust`.
#[derive(Debug, Clone)]
pub struct Robust {
    /// The version of etcd, one of [`crate::ETCD_VERSIONS`].
    pub etcd: String,
    /// `kubernetes` or `etcd`: the client whose requests are imitated, at most 200 per second.
    pub traffic: String,
    /// The number of hosts, at least 3. All beyond 3 are spares: with 1 spare a dead host is replaced, with 2
    /// the cluster is resized.
    pub hosts: u8,
    /// How long requests are sent.
    pub duration: Duration,
    /// Decides the order of operations and the host of each. The requests are random each time.
    pub seed: u64,
    /// The maximum number of operations. None begins after the traffic's duration.
    pub operations: usize,
}

impl Robust {
    /// Runs one round and prints its operations to standard error. Returns an error if etcd's validators
    /// refuse the history, or if the cluster does not recover. The clients' reports and the members' logs are
    /// then kept.
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
            let order = Order::new(self.seed, usize::from(self.hosts));
            let whom = Random::new(!self.seed);
            let operated = round.operate(order, whom, self.operations, self.duration);
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
        // Without a size in the configuration the size is 3, and `spec set` changes it in the store.
        let edit = ["sed", "-i", "/^size = /d", "/etc/etcd-agent/config.toml"];
        lab.each(|host| host.exec(&edit)?.ok().map(drop))?;
        lab.start_agents()?;
        lab.wait_healthy(MEMBERS, PATIENCE)?;
        Ok(lab)
    }

    /// Sends requests to all hosts, members or not, for the duration.
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

/// If the validators refuse the history, returns an error with the end of their output. The whole output is
/// in a file of `dir`.
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
