//! A full backup of 1 GiB into S3: by the agent, and by etcdctl and a standard client.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use etcd_agent_lab::{Cmd, Host, Lab, S3};

use super::form::form;
use super::probe::{self, Values};
use super::report::{Line, Samples};

const ROUNDS: usize = 3;
pub(crate) const BYTES: u64 = 1024 * 1024 * 1024;
/// Written during a backup. The quota is 2 GiB.
const MORE: u64 = 512 * 1024 * 1024;
pub(crate) const LONG: Duration = Duration::from_mins(10);
/// In MiB, independent of the size of the database.
const MEMORY: f64 = 64.0;
/// The limit as a share of the time by hand.
const SHARE: f64 = 0.6;
const AWS: &str = "/usr/bin/aws";

pub(crate) fn run() -> Result<Vec<Line>> {
    install_client()?;
    let lab = boot(Values::Objects)?;
    let (ours, by_hand, memory) = rounds(&lab)?;
    lab.passed();
    let mut lines = vec![Line::new(
        "backup_1gib",
        "s",
        ours,
        Some(by_hand),
        SHARE * by_hand,
    )];
    let lab = boot(Values::Noise)?;
    let (ours, by_hand, more) = rounds(&lab)?;
    // The worst case: compression only costs time.
    let limit = SHARE * by_hand;
    lines.push(Line::new("backup_1gib_noise", "s", ours, Some(by_hand), limit));
    lines.push(Line::new(
        "backup_1gib_memory",
        "MiB",
        memory.max(more),
        None,
        MEMORY,
    ));
    let busy = while_written(&lab)?;
    lines.push(Line::new("backup_busy_memory", "MiB", busy, None, MEMORY));
    lab.passed();
    Ok(lines)
}

fn boot(values: Values) -> Result<Lab> {
    let lab = Lab::builder("bench-backup").boot()?;
    lab.s3().in_memory(10)?;
    form(&lab, "")?;
    probe::fill(&lab, BYTES, values)?;
    Ok(lab)
}

/// The time that the agent takes, the time by hand, and the agent's peak memory.
fn rounds(lab: &Lab) -> Result<(f64, f64, f64)> {
    let host = lab.host(1)?;
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    let mut peak = Samples::new("peak MiB");
    for _ in 0..ROUNDS {
        let (took, most) = back_up(lab)?;
        ours.add_time(took);
        peak.add(most);

        by_hand.add_time(save(host)? + upload(lab, host)?);
    }
    Ok((ours.median()?, by_hand.median()?, peak.max()?))
}

/// The agent's peak memory while etcd is written to at full speed: the increments of those writes are stored
/// concurrently with the full backup.
fn while_written(lab: &Lab) -> Result<f64> {
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| probe::fill(lab, BYTES + MORE, Values::Noise));
        let (took, most) = back_up(lab)?;
        eprintln!(
            "bench:   backed up in {took:?} under writes, the writer had ended: {}",
            writer.is_finished()
        );
        writer.join().map_err(|_| anyhow!("the writer panicked"))??;
        Ok(most)
    })
}

/// Four times as much data takes no more memory.
pub(crate) fn large() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-large").boot()?;
    form(&lab, "quota-backend-bytes = 8589934592\n")?;
    probe::fill(&lab, 4 * BYTES, Values::Noise)?;
    let (took, most) = back_up(&lab)?;
    lab.passed();
    eprintln!("bench:   backed up in {took:?}");
    Ok(vec![Line::new("backup_4gib_memory", "MiB", most, None, MEMORY)])
}

/// One full backup: how long it took, and the agent's peak memory in MiB.
fn back_up(lab: &Lab) -> Result<(Duration, f64)> {
    let host = lab.host(1)?;
    // The kernel counts the peak from the agent's start, so the agent is restarted before each backup.
    host.systemctl(&["restart", "etcd-agent"])?.ok()?;
    probe::healthy(lab, None, LONG)?;
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    host.exec_for(LONG, &["etcd-agent", "backup", "now"])?.ok()?;
    Ok((begun.elapsed(), memory(host, "VmHWM:")?))
}

pub(crate) fn save(host: &Host) -> Result<Duration> {
    let script = "rm -f /root/snapshot.db; etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/etcd/tls/ca.crt \
                  --cert=/etc/etcd/tls/node.crt --key=/etc/etcd/tls/node.key snapshot save /root/snapshot.db";
    Ok(host.exec_for(LONG, &["sh", "-ec", script])?.ok()?.took)
}

fn upload(lab: &Lab, host: &Host) -> Result<Duration> {
    let done = Cmd::new("nsenter")
        .arg(format!("--net=/run/netns/{}", lab.net().outside_namespace()))
        .args([
            AWS,
            "--endpoint-url",
            &lab.s3().endpoint(),
            "s3",
            "cp",
            "--only-show-errors",
        ])
        .arg(host.disk().join("root/snapshot.db"))
        .arg(format!("s3://{}/by-hand/snapshot.db", S3::BUCKET))
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_KEY)
        .env("AWS_DEFAULT_REGION", S3::REGION)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .deadline(LONG)
        .ok()?;
    Ok(done.took)
}

/// A field of the agent's `/proc/PID/status`, in MiB.
pub(crate) fn memory(host: &Host, field: &str) -> Result<f64> {
    let pid = host.main_pid("etcd-agent")?.context("the agent runs")?;
    let status = host.read_file(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line
        .and_then(|rest| rest.split_whitespace().next())
        .context("a figure")?;
    Ok(number.parse::<f64>()? / 1024.0)
}

fn install_client() -> Result<()> {
    if Path::new(AWS).exists() {
        return Ok(());
    }
    eprintln!("bench: installing awscli");
    for args in [
        ["update", "-q"].as_slice(),
        &["install", "-y", "-q", "--no-install-recommends", "awscli"],
    ] {
        Cmd::new("apt-get")
            .caller_env()
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(args)
            .deadline(LONG)
            .ok()?;
    }
    Ok(())
}
