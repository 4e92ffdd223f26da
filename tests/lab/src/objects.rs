//! A client that writes as the API server of Kubernetes does: objects are created, updated and deleted by transactions
//! that compare the revision of their last change, and events have leases. It goes on while etcd refuses writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use etcd_client::{Client, Compare, CompareOp, Error, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse};
use tokio::time::{sleep, timeout};

use crate::lab::{Lab, PATIENCE};
use crate::load::{Target, in_outside};
use crate::wait::wait_until;

/// The timeout of one try at one endpoint.
const TRY: Duration = Duration::from_secs(2);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(3);
/// The objects that are updated again and again.
const OBJECTS: u64 = 80;
/// The length of an object's value in bytes. The database grows in steps of some of them, which have to be small compared
/// with 5 % of the quota: an etcd with more space than that counts as one that has space.
const BYTES: usize = 15_000;
/// How often an object is deleted, to be created again, instead of updated.
const DELETED: u64 = 20;
/// How often an event is written, which stays for the time of its lease.
const EVENTS: u64 = 5;
/// The time to live of events in seconds.
const EVENT_TTL: i64 = 3600;

/// A running writer.
#[derive(Debug)]
pub struct Objects {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    thread: JoinHandle<Result<ObjectsWritten>>,
}

#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    /// Puts that were acknowledged after the first refusal.
    after: AtomicU64,
}

/// The result of a writer.
#[derive(Debug, Clone, Copy, Default)]
pub struct ObjectsWritten {
    /// Acknowledged transactions that put a key.
    pub puts: u64,
    /// Acknowledged transactions that deleted one.
    pub deletes: u64,
    /// Tries that etcd refused because it had no space.
    pub refused: u64,
    /// The time from the first of these to the next acknowledged put.
    pub outage: Duration,
}

impl Objects {
    /// Waits until etcd has refused writes for want of space, and then until `puts` further ones are acknowledged.
    pub fn wait_through_no_space(&self, puts: u64, patience: Duration) -> Result<()> {
        let refused = || Ok(self.counts.refused.load(Ordering::SeqCst) > 0);
        wait_until("a refused write", patience, refused)?;
        wait_until("writes to come back", patience, || {
            Ok(self.counts.after.load(Ordering::SeqCst) >= puts)
        })?;
        Ok(())
    }

    /// Ends the writer. Returns an error if an object is not as it was acknowledged last.
    pub fn stop(self) -> Result<ObjectsWritten> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow!("the writer panicked"))?
    }
}

impl Lab {
    /// Starts a writer of objects below `/registry/` that uses all hosts' endpoints and fails over from one to the
    /// next. The objects have 1.2 MB together.
    pub fn start_objects(&self) -> Result<Objects> {
        let target = self.target()?;
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
        let (ended, shared) = (Arc::clone(&stop), Arc::clone(&counts));
        let thread = std::thread::Builder::new()
            .name("lab-objects".to_owned())
            .spawn(move || {
                in_outside(&target.clone(), move || async move {
                    let mut writer = Writer::new(target);
                    writer.write(&ended, &shared).await?;
                    writer.check().await?;
                    Ok(writer.written)
                })
            })?;
        Ok(Objects { stop, counts, thread })
    }
}

/// The last known state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// The revision of its last change; 0 if it does not exist.
    changed: i64,
    /// The number at the beginning of its value.
    number: u64,
}

const NONE: Known = Known {
    changed: 0,
    number: 0,
};

struct Writer {
    target: Target,
    at: usize,
    client: Option<Client>,
    known: BTreeMap<String, Known>,
    lease: Option<i64>,
    written: ObjectsWritten,
}

impl Writer {
    fn new(target: Target) -> Self {
        Self {
            target,
            at: 0,
            client: None,
            known: BTreeMap::new(),
            lease: None,
            written: ObjectsWritten::default(),
        }
    }

    async fn write(&mut self, stop: &AtomicBool, counts: &Counts) -> Result<()> {
        let mut refused_at: Option<Instant> = None;
        let mut number = 0;
        while !stop.load(Ordering::SeqCst) {
            number += 1;
            // The same until it is acknowledged: a client of Kubernetes does not give up either.
            while !stop.load(Ordering::SeqCst) {
                match timeout(TRY, self.change(number)).await {
                    Ok(Ok(is_put)) => {
                        let count = if is_put {
                            &mut self.written.puts
                        } else {
                            &mut self.written.deletes
                        };
                        *count += 1;
                        if let Some(at) = refused_at.filter(|_| is_put)
                            && counts.after.fetch_add(1, Ordering::SeqCst) == 0
                        {
                            self.written.outage = at.elapsed();
                        }
                        sleep(PAUSE).await;
                        break;
                    }
                    Ok(Err(error)) if lacks_space(&error) => {
                        refused_at.get_or_insert_with(Instant::now);
                        self.written.refused += 1;
                        counts.refused.fetch_add(1, Ordering::SeqCst);
                        self.at += 1;
                    }
                    Ok(Err(_)) | Err(_) => self.at += 1,
                }
                self.client = None;
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Changes the object of this number; true if it was put. A change of which the answer did not arrive is found by
    /// the next try, which compares the revision.
    async fn change(&mut self, number: u64) -> Result<bool> {
        if number.is_multiple_of(EVENTS) {
            let lease = self.lease().await?;
            let key = format!("/registry/events/default/{number:08}");
            return self.put(key, number, 200, Some(lease)).await;
        }
        let key = format!("/registry/configmaps/default/{}", number % OBJECTS);
        if number.is_multiple_of(DELETED + 1) && self.known.get(&key).is_some_and(|known| *known != NONE) {
            return self.delete(key).await;
        }
        self.put(key, number, BYTES, None).await
    }

    async fn put(&mut self, key: String, number: u64, bytes: usize, lease: Option<i64>) -> Result<bool> {
        let known = self.known.get(&key).copied().unwrap_or(NONE);
        let value = format!("{number} {}", "x".repeat(bytes));
        let options = lease.map(|id| PutOptions::new().with_lease(id));
        let then = TxnOp::put(key.clone(), value, options);
        let changed = self.compare_and(&key, known, then).await?;
        match changed {
            Some(changed) => {
                self.known.insert(key, Known { changed, number });
            }
            // An earlier try was carried out.
            None => anyhow::ensure!(
                self.known.get(&key).is_some_and(|found| found.number == number),
                "somebody else has written {key}"
            ),
        }
        Ok(true)
    }

    async fn delete(&mut self, key: String) -> Result<bool> {
        let known = self.known.get(&key).copied().unwrap_or(NONE);
        let then = TxnOp::delete(key.clone(), None);
        if self.compare_and(&key, known, then).await?.is_none() {
            let gone = self.known.get(&key) == Some(&NONE);
            anyhow::ensure!(gone, "somebody else has written {key}");
        }
        self.known.insert(key, NONE);
        Ok(false)
    }

    /// Carries out an operation if the object has not changed since it was `known`; the revision of the change.
    /// Otherwise it notes how the object is now.
    async fn compare_and(&mut self, key: &str, known: Known, then: TxnOp) -> Result<Option<i64>> {
        let unchanged = Compare::mod_revision(key, CompareOp::Equal, known.changed);
        let txn = Txn::new()
            .when([unchanged])
            .and_then([then])
            .or_else([TxnOp::get(key, None)]);
        let answer = self.client().await?.txn(txn).await?;
        let revision = answer.header().context("a header")?.revision();
        if answer.succeeded() {
            return Ok(Some(revision));
        }
        let Some(TxnOpResponse::Get(found)) = answer.op_responses().into_iter().next() else {
            bail!("no answer to the read of {key}");
        };
        let found = found.kvs().first().map_or(Ok(NONE), |pair| {
            anyhow::Ok(Known {
                changed: pair.mod_revision(),
                number: number_of(pair.value_str()?)?,
            })
        })?;
        self.known.insert(key.to_owned(), found);
        Ok(None)
    }

    async fn lease(&mut self) -> Result<i64> {
        if let Some(id) = self.lease {
            return Ok(id);
        }
        let id = self.client().await?.lease_grant(EVENT_TTL, None).await?.id();
        self.lease = Some(id);
        Ok(id)
    }

    async fn client(&mut self) -> Result<&mut Client> {
        if self.client.is_none() {
            let endpoints = &self.target.endpoints;
            let endpoint = endpoints.get(self.at % endpoints.len().max(1));
            let client = self.target.connect(endpoint.context("an endpoint")?).await?;
            self.client = Some(client);
        }
        self.client.as_mut().context("a client")
    }

    /// Each object is as it was acknowledged last. The last change may have been carried out without an answer.
    async fn check(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let found = loop {
            match timeout(TRY, self.read_all()).await {
                Ok(Ok(found)) => break found,
                _ if Instant::now() < deadline => {
                    self.client = None;
                    self.at += 1;
                    sleep(PAUSE).await;
                }
                Ok(Err(error)) => return Err(error.context("reading the objects")),
                Err(_) => bail!("the objects were not read in time"),
            }
        };
        let known = self.known.iter().filter(|(_, known)| **known != NONE);
        let differs = known.filter(|(key, known)| found.get(*key) != Some(&known.number));
        let differs: Vec<_> = differs
            .map(|(key, known)| (key, known.number, found.get(key)))
            .collect();
        let last = self.written.puts + self.written.deletes + 1;
        let is_last = |found: Option<&u64>| match found {
            Some(found) => *found == last,
            None => last.is_multiple_of(DELETED + 1),
        };
        if differs.iter().any(|(_, _, found)| !is_last(*found)) {
            bail!("these objects are not as they were acknowledged: {differs:?}");
        }
        Ok(())
    }

    async fn read_all(&mut self) -> Result<BTreeMap<String, u64>> {
        let options = GetOptions::new().with_prefix();
        let answer = self.client().await?.get("/registry/", Some(options)).await?;
        let pairs = answer.kvs().iter().map(|pair| {
            let number = number_of(pair.value_str()?)?;
            anyhow::Ok((pair.key_str()?.to_owned(), number))
        });
        pairs.collect()
    }
}

fn number_of(value: &str) -> Result<u64> {
    let number = value.split(' ').next().unwrap_or_default();
    Ok(number.parse()?)
}

fn lacks_space(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<Error>();
    matches!(status, Some(Error::GRpcStatus(status)) if status.message().contains("space exceeded"))
}
