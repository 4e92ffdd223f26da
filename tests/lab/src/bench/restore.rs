//! A restore of 1 GiB and a million revisions of increments, compared with `etcdutl snapshot restore` of the
//! 1 GiB alone.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use etcd_agent_lab::{Host, Lab, PATIENCE, wait_until};
use etcd_client::PutOptions;

use super::backup::{BYTES, LONG, save};
use super::form::form;
use super::increments::{revision, stored};
use super::probe::{self, Values};
use super::report::{Line, Samples};

const ROUNDS: usize = 3;
const REVISIONS: u64 = 1_000_000;
const WRITERS: u64 = 64;
/// An acceptable time for a restore of this size. By hand it takes about the time of one copy.
const TIMES_BY_HAND: f64 = 5.0;

pub(crate) fn run() -> Result<Vec<Line>> {
    let lab = Lab::builder("bench-restore").boot()?;
    form(&lab, "")?;
    let host = lab.host(1)?;
    probe::fill(&lab, BYTES, Values::Noise)?;
    host.exec_for(LONG, &["etcd-agent", "backup", "now"])?.ok()?;
    save(host)?;
    let begun = Instant::now();
    write(&lab)?;
    let last = revision(&lab)?;
    wait_until("the last revision to be stored", PATIENCE, || {
        Ok(stored(&lab)? >= last)
    })?;
    eprintln!(
        "bench:   {REVISIONS} revisions written and stored in {:?}",
        begun.elapsed()
    );
    // Nothing else runs during the restore.
    host.systemctl(&["stop", "etcd-agent", "etcd"])?.ok()?;
    let (mut ours, mut by_hand) = (Samples::new("ours"), Samples::new("by hand"));
    for _ in 0..ROUNDS {
        ours.add_time(timed(host, "etcd-agent restore latest --to /root/restored")?);
        by_hand.add_time(timed(
            host,
            "etcdutl snapshot restore /root/snapshot.db --data-dir /root/restored",
        )?);
    }
    lab.passed();
    let by_hand = by_hand.median()?;
    Ok(vec![Line::new(
        "restore_1gib_1m",
        "s",
        ours.median()?,
        Some(by_hand),
        TIMES_BY_HAND * by_hand,
    )])
}

/// How long a restore into a new directory takes.
fn timed(host: &Host, script: &str) -> Result<Duration> {
    host.sh("rm -rf /root/restored; sync")?.ok()?;
    let begun = Instant::now();
    host.exec_for(LONG, &["sh", "-ec", script])?.ok()?;
    let took = begun.elapsed();
    host.sh("test -s /root/restored/member/snap/db")?.ok()?;
    Ok(took)
}

/// Each write is one revision. Many clients write concurrently, since each waits for the disk.
fn write(lab: &Lab) -> Result<()> {
    let host = lab.host(1)?;
    probe::outside(lab, || async {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let mut client = probe::client(lab, host).await?;
            writers.push(tokio::spawn(async move {
                for number in 0..REVISIONS / WRITERS {
                    // Keys repeat, as in a real cluster.
                    let key = format!("many/{writer}/{}", number % 1000);
                    client.put(key, [b'x'; 100], None::<PutOptions>).await?;
                }
                anyhow::Ok(())
            }));
        }
        for writer in writers {
            writer
                .await
                .map_err(|error| anyhow!("a writer ended early: {error}"))??;
        }
        Ok(())
    })
}
