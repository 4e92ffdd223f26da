//! `lab demo`: from three empty hosts to a cluster that has lost a member and healed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etcd_agent_lab::{Host, Lab, S3, wait_for};

const DATA: &str = "/var/lib/etcd/default";
/// The timeout for steps that take seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs all steps, and leaves nothing behind.
pub(crate) fn run(deb: &Path) -> Result<()> {
    let mut steps = Steps::default();
    let lab = steps.take("three systemd hosts booted", || {
        let lab = Lab::builder("demo").hosts(3).etcd_of_debian().one_etcd().boot()?;
        lab.s3().start()?;
        Ok(lab)
    })?;
    steps.take("the package installed on each", || lab.install(deb))?;
    steps.take("configuration, certificates and S3 keys written", || {
        lab.configure(|_, _| ())
    })?;
    steps.take("agents started, three healthy members, mutual TLS", || {
        lab.start_agents()?;
        lab.wait_healthy(3, PATIENCE)
    })?;
    let n1 = lab.host(1)?;
    lab.etcdctl(&[n1], &["put", "greeting", "still here"])?.ok()?;
    steps.take("backed up to S3 (`etcd-agent backup now`)", || {
        agent(n1, &["backup", "now"]).map(drop)
    })?;

    let n3 = lab.host(3)?;
    let before = member_of(&lab, n1, "n3")?;
    n3.wipe(DATA)?;
    n3.kill_process("etcd", "KILL")?;
    println!("n3 loses its disk: rm -rf {DATA}, SIGKILL to etcd (member {before})");
    let after = steps.take("n3 removed, added as a learner, caught up, voting", || {
        let after = wait_for("n3 to be a new member", PATIENCE, || {
            Ok(member_of(&lab, n1, "n3").ok().filter(|id| *id != before))
        })?;
        lab.wait_healthy(3, PATIENCE)?;
        Ok(after)
    })?;
    println!("n3 is member {after} now");
    let read = lab.etcdctl(&[n3], &["get", "greeting", "--print-value-only"])?;
    if read.ok()?.text() != "still here" {
        bail!("n3 does not have the key that was written before");
    }
    steps.take("`etcd-agent status` reports a healthy cluster", || settled(n1))?;

    show(n1, &["etcd-agent", "status"])?;
    show(n1, &["etcd-agent", "backup", "list"])?;
    show(
        n3,
        &["systemctl", "status", "--no-pager", "--lines=0", "etcd-agent"],
    )?;
    println!("\nn3# journalctl -u etcd-agent -n 12");
    print!("{}", n3.journal_tail("etcd-agent", 12));

    println!(
        "\nThree hosts on this machine, {} of Debian 13, S3 bucket {}:",
        n1.exec(&["etcd", "--version"])?
            .ok()?
            .stdout
            .lines()
            .next()
            .unwrap_or_default()
            .replace("Version: ", ""),
        S3::BUCKET
    );
    steps.table();
    lab.passed();
    println!("The hosts are removed. To try it by hand: make lab");
    Ok(())
}

/// The finished steps and how long each took.
#[derive(Default)]
struct Steps(Vec<(&'static str, Duration)>);

impl Steps {
    fn take<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = work().context(name)?;
        let took = start.elapsed();
        println!("{:>7.2} s  {name}", took.as_secs_f64());
        self.0.push((name, took));
        Ok(done)
    }

    fn table(&self) {
        for (name, took) in &self.0 {
            println!("{:>7.2} s  {name}", took.as_secs_f64());
        }
    }
}

/// The member ID of a node, from a linearizable member list.
fn member_of(lab: &Lab, through: &Host, node: &str) -> Result<String> {
    let list = lab.etcdctl(&[through], &["member", "list", "--command-timeout=3s"])?;
    let list = list.ok()?;
    list.stdout
        .lines()
        .map(|line| line.split(", ").collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&node))
        .and_then(|fields| fields.first().map(|id| (*id).to_owned()))
        .with_context(|| format!("{node} is not in the member list"))
}

/// Waits until the exit code of `status` reports a healthy cluster.
fn settled(host: &Host) -> Result<()> {
    let wait = wait_for("etcd-agent status to be healthy", PATIENCE, || {
        let output = host.exec(&["etcd-agent", "status"])?;
        if output.code == 0 {
            return Ok(Some(()));
        }
        bail!("{}{}", output.stdout, output.stderr)
    });
    wait.map(drop)
}

fn agent(host: &Host, args: &[&str]) -> Result<String> {
    let argv: Vec<&str> = std::iter::once("etcd-agent")
        .chain(args.iter().copied())
        .collect();
    Ok(host.exec_for(PATIENCE, &argv)?.ok()?.stdout)
}

/// Runs a command on a host and shows it as on a terminal.
fn show(host: &Host, argv: &[&str]) -> Result<()> {
    let output = host.exec(argv)?;
    println!("\n{}# {}", host.name(), argv.join(" "));
    print!("{}{}", output.stdout, output.stderr);
    Ok(())
}
