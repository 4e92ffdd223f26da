//! A client that writes continuously, records acknowledged writes, and checks that they are still there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, TlsOptions};
use tokio::time::{sleep, timeout};

use crate::host::Host;
use crate::lab::Lab;
use crate::outside;

/// The timeout of one try at one endpoint before the next endpoint is tried. It grows with each round in
/// which no endpoint accepted the write, e.g. on a machine too busy to complete a handshake in time.
const TRY: Duration = Duration::from_millis(500);

/// The longest try.
const LONGEST_TRY: Duration = Duration::from_secs(4);

/// The total time for a read of all keys, including an election.
const READ_PATIENCE: Duration = Duration::from_mins(1);

/// The pause between two writes: a steady stream that leaves CPU time to the hosts.
const PAUSE: Duration = Duration::from_millis(10);

/// The same for a benchmark, in which nothing else runs: about 500 writes a second.
const SHORT_PAUSE: Duration = Duration::from_millis(2);

/// How to reach the cluster from the outside.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    namespace: String,
    pub(crate) endpoints: Vec<String>,
    tls: Option<(PathBuf, PathBuf, PathBuf)>,
}

/// A running writer: keys `<prefix>00000001` and so on, one after the other, each repeated until
/// acknowledged.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<Result<Written>>,
}

/// The result of a writer.
#[derive(Debug, Clone)]
pub struct Written {
    /// The prefix of all its keys.
    pub prefix: String,
    /// The number of writes that etcd acknowledged: the keys 1 to this.
    pub acknowledged: u64,
    /// The longest time between two acknowledgements, or from the start to the first.
    pub longest_gap: Duration,
    /// Tries that failed or timed out. Each was repeated with the same key and value.
    pub failed_tries: u64,
    /// When the writer started.
    pub start: Instant,
    /// The time of each acknowledgement since the start.
    pub times: Vec<Duration>,
}

impl Load {
    /// The number of writes acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until `more` further writes are acknowledged.
    pub fn wait_for(&self, more: u64, patience: Duration) -> Result<()> {
        let wanted = self.acknowledged() + more;
        crate::wait::wait_until(&format!("{more} more acknowledged writes"), patience, || {
            Ok(self.acknowledged() >= wanted)
        })?;
        Ok(())
    }

    /// Ends the writer. A pending write is given up and not counted.
    pub fn stop(self) -> Result<Written> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow!("the writer panicked"))?
    }
}

impl Written {
    /// The longest time between two acknowledgements, of which some lies between these moments, and when it began.
    /// Zero if there is none.
    pub fn longest_gap_within(&self, from: Instant, to: Instant) -> (Duration, Instant) {
        let next = self.times.iter().skip(1);
        self.times
            .iter()
            .zip(next)
            .map(|(one, next)| (next.saturating_sub(*one), self.start + *one))
            .filter(|(gap, began)| *began < to && *began + *gap > from)
            .max()
            .unwrap_or((Duration::ZERO, from))
    }

    /// Fails with the acknowledged writes that are missing or have another value.
    pub fn verify_all(&self, lab: &Lab) -> Result<()> {
        let missing = self.missing(lab)?;
        if missing.is_empty() {
            return Ok(());
        }
        let first: Vec<_> = missing.iter().take(10).collect();
        bail!(
            "{} of {} acknowledged writes below {} are lost, the first: {first:?}",
            missing.len(),
            self.acknowledged,
            self.prefix
        )
    }

    /// The acknowledged writes that a linearizable read does not return as written.
    pub fn missing(&self, lab: &Lab) -> Result<Vec<u64>> {
        let target = lab.target()?;
        let prefix = self.prefix.clone();
        let found = crate::wait::wait_for("a read of all keys", READ_PATIENCE, || {
            let (target, prefix) = (target.clone(), prefix.clone());
            in_outside(&target.clone(), move || async move {
                read_all(&target, &prefix).await.map(Some)
            })
        })?;
        Ok((1..=self.acknowledged)
            .filter(|number| !found.contains(number))
            .collect())
    }
}

impl Lab {
    /// Starts a writer that uses all hosts' endpoints and fails over from one to the next.
    pub fn start_load(&self, prefix: &str) -> Result<Load> {
        start(self.target()?, prefix, PAUSE)
    }

    /// The same with less time between the writes.
    pub fn start_dense_load(&self, prefix: &str) -> Result<Load> {
        start(self.target()?, prefix, SHORT_PAUSE)
    }

    /// The same in plain HTTP on another port of each host.
    pub fn start_plain_load(&self, prefix: &str, port: u16) -> Result<Load> {
        let url = |host: &Host| format!("http://{}:{port}", host.address());
        let target = Target {
            namespace: self.net().outside_namespace(),
            endpoints: self.hosts().iter().map(url).collect(),
            tls: None,
        };
        start(target, prefix, PAUSE)
    }

    pub(crate) fn target(&self) -> Result<Target> {
        let tls = if self.has_tls() {
            let (cert, key) = self.client_files()?;
            Some((self.ca()?.cert_path(), cert, key))
        } else {
            None
        };
        Ok(Target {
            namespace: self.net().outside_namespace(),
            endpoints: self.hosts().iter().map(|host| self.client_url(host)).collect(),
            tls,
        })
    }
}

impl Target {
    /// A client of a single endpoint, so that the fail-over happens here and is measured.
    pub(crate) async fn connect(&self, endpoint: &str) -> Result<Client> {
        let mut options = ConnectOptions::new().with_connect_timeout(LONGEST_TRY);
        if let Some((ca, cert, key)) = &self.tls {
            options = options.with_tls(
                TlsOptions::new()
                    .ca_certificate(Certificate::from_pem(std::fs::read(ca)?))
                    .identity(Identity::from_pem(std::fs::read(cert)?, std::fs::read(key)?)),
            );
        }
        Ok(Client::connect([endpoint], Some(options)).await?)
    }
}

fn start(target: Target, prefix: &str, pause: Duration) -> Result<Load> {
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (ended, count, prefix) = (Arc::clone(&stop), Arc::clone(&acknowledged), prefix.to_owned());
    let thread = std::thread::Builder::new()
        .name("lab-load".to_owned())
        .spawn(move || {
            in_outside(&target.clone(), move || async move {
                write(&target, prefix, pause, &ended, &count).await
            })
        })?;
    Ok(Load {
        stop,
        acknowledged,
        thread,
    })
}

/// Runs a future in the outside namespace, on a thread that stays there.
pub(crate) fn in_outside<T, F, W>(target: &Target, work: W) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
    W: FnOnce() -> F + Send,
{
    outside::run(&target.namespace, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(work())
    })
}

fn key(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:08}")
}

async fn write(
    target: &Target,
    prefix: String,
    pause: Duration,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> Result<Written> {
    let start = Instant::now();
    let mut clients: Vec<Option<Client>> = target.endpoints.iter().map(|_| None).collect();
    let clients_count = clients.len();
    let mut at = 0;
    let mut last = Duration::ZERO;
    let mut failed_here = 0;
    let mut written = Written {
        prefix,
        acknowledged: 0,
        longest_gap: Duration::ZERO,
        failed_tries: 0,
        start,
        times: Vec::new(),
    };
    while !stop.load(Ordering::SeqCst) {
        let number = written.acknowledged + 1;
        let put = async {
            let slot = clients.get_mut(at).context("an endpoint")?;
            let client = match slot {
                Some(client) => client,
                None => slot.insert(
                    target
                        .connect(target.endpoints.get(at).context("an endpoint")?)
                        .await?,
                ),
            };
            client
                .put(key(&written.prefix, number), number.to_string(), None)
                .await?;
            anyhow::Ok(())
        };
        let rounds = u32::try_from(failed_here / clients_count.max(1)).unwrap_or(u32::MAX);
        let patience = TRY.saturating_mul(rounds.saturating_add(1)).min(LONGEST_TRY);
        if let Ok(Ok(())) = timeout(patience, put).await {
            failed_here = 0;
            let now = start.elapsed();
            let gap = now.saturating_sub(last);
            written.longest_gap = written.longest_gap.max(gap);
            last = now;
            written.times.push(now);
            written.acknowledged = number;
            count.store(number, Ordering::SeqCst);
            sleep(pause).await;
        } else {
            written.failed_tries += 1;
            failed_here += 1;
            if let Some(slot) = clients.get_mut(at) {
                *slot = None;
            }
            at = (at + 1) % clients.len().max(1);
            sleep(pause).await;
        }
    }
    Ok(written)
}

async fn read_all(target: &Target, prefix: &str) -> Result<BTreeSet<u64>> {
    let mut last = anyhow!("no endpoint");
    for endpoint in &target.endpoints {
        let read = async {
            let mut client = target.connect(endpoint).await?;
            let mut found = BTreeSet::new();
            let end = format!("{prefix}:");
            let mut from = prefix.to_owned();
            loop {
                // In pages: a gRPC message has at most 4 MiB.
                let page = GetOptions::new().with_range(end.clone()).with_limit(20_000);
                let response = client.get(from, Some(page)).await?;
                for pair in response.kvs() {
                    let number: u64 = pair.value_str()?.parse()?;
                    if pair.key_str()? == key(prefix, number) {
                        found.insert(number);
                    }
                }
                match response.kvs().last() {
                    Some(last) if response.more() => from = format!("{}\0", last.key_str()?),
                    _ => return anyhow::Ok(found),
                }
            }
        };
        match timeout(Duration::from_secs(10), read).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => last = error.context(endpoint.clone()),
            Err(_) => last = anyhow!("{endpoint} did not answer"),
        }
    }
    Err(last.context(format!("reading the keys below {prefix}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_before_or_after_the_work_is_not_of_the_work() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let written = Written {
            prefix: "x".to_owned(),
            acknowledged: 7,
            longest_gap: ms(900),
            failed_tries: 0,
            start,
            times: [900, 1000, 1010, 1060, 1070, 1100, 1400].map(ms).to_vec(),
        };
        let within = |from, to| {
            let (gap, began) = written.longest_gap_within(start + ms(from), start + ms(to));
            (gap, began.duration_since(start))
        };
        assert_eq!(within(1005, 1090), (ms(50), ms(1010)));
        // One that begins before, or ends after, counts in full.
        assert_eq!(within(950, 1090).0, ms(100));
        assert_eq!(within(1005, 1200).0, ms(300));
        assert_eq!(within(2000, 3000).0, Duration::ZERO);
    }
}
