//! The thread that hashes and compresses a snapshot.

use std::io;
use std::thread;

use bytes::Bytes;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tokio::sync::mpsc;

use crate::ports::{PortError, PortResult};

use super::gzip::GzipCompressor;
use crate::backup::compress::Compressor;
use crate::backup::store::manifest::Compression;
use crate::backup::trailer::TrailerCheck;

/// The priority of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// The idle class of the CPU and of the disks: etcd comes first.
    Idle,
    /// That of the agent. An operator waits, and a cluster that is moved accepts no writes meanwhile.
    Usual,
}

impl Priority {
    /// Gives it to this thread. The I/O class follows from the thread's scheduling class (`ioprio_set(2)`).
    fn take(self) {
        if self == Self::Usual {
            return;
        }
        let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy) {
            tracing::debug!("the backup's thread runs at the usual priority: {error}");
        }
    }
}

/// The result of packing a snapshot.
pub(in crate::backup) struct Stored {
    pub(super) raw_bytes: u64,
    pub(in crate::backup) bytes: u64,
    pub(in crate::backup) sha256: String,
}

/// Compresses in one of the forms.
pub(super) enum Packer {
    Zstd(Compressor),
    Gzip(GzipCompressor),
}

impl Packer {
    pub(in crate::backup) fn new(compression: Compression) -> std::io::Result<Self> {
        Ok(match compression {
            Compression::Zstd => Self::Zstd(Compressor::new()?),
            Compression::Gzip => Self::Gzip(GzipCompressor::new()),
        })
    }

    fn push(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Zstd(packer) => packer.push(chunk),
            Self::Gzip(packer) => packer.push(chunk),
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        match self {
            Self::Zstd(packer) => packer.finish(),
            Self::Gzip(packer) => packer.finish(),
        }
    }

    fn take_full(&mut self) -> Vec<Bytes> {
        match self {
            Self::Zstd(packer) => packer.take_full(),
            Self::Gzip(packer) => packer.take_full(),
        }
    }

    fn total(&self) -> u64 {
        match self {
            Self::Zstd(packer) => packer.total(),
            Self::Gzip(packer) => packer.total(),
        }
    }
}

/// The state that is kept between batches.
struct Work {
    check: TrailerCheck,
    packer: Packer,
}

impl Work {
    fn push(&mut self, batch: Vec<Bytes>) -> PortResult<Vec<Bytes>> {
        for chunk in batch {
            self.check.push(&chunk);
            self.packer.push(&chunk).map_err(|error| pack_failed(&error))?;
        }
        Ok(self.packer.take_full())
    }

    fn finish(mut self) -> PortResult<(Vec<Bytes>, Stored)> {
        let raw_bytes = self.check.total();
        let sha256 = self.check.finish().map_err(|error| {
            PortError::Retryable(format!(
                "the snapshot from etcd is not whole: {error}; nothing of it was kept"
            ))
        })?;
        self.packer.finish().map_err(|error| pack_failed(&error))?;
        let stored = Stored {
            raw_bytes,
            bytes: self.packer.total(),
            sha256,
        };
        Ok((self.packer.take_full(), stored))
    }
}

enum Packed {
    Pieces(Vec<Bytes>),
    Whole(Vec<Bytes>, Stored),
}

/// A thread at work. Dropping this ends it.
pub(super) struct Worker {
    batches: mpsc::Sender<Vec<Bytes>>,
    packed: mpsc::Receiver<PortResult<Packed>>,
}

impl Worker {
    pub(in crate::backup) fn start(packer: Packer, priority: Priority) -> PortResult<Self> {
        // One slot each: the sender waits for the result.
        let (batches, to_do) = mpsc::channel(1);
        let (done, packed) = mpsc::channel(1);
        let work = Work {
            check: TrailerCheck::default(),
            packer,
        };
        thread::Builder::new()
            .name("backup".to_owned())
            .spawn(move || {
                priority.take();
                run(work, to_do, &done);
            })
            .map_err(|error| {
                PortError::Retryable(format!("cannot start a thread for the backup: {error}"))
            })?;
        Ok(Self { batches, packed })
    }

    /// Returns the pieces that are ready to be stored.
    pub(in crate::backup) async fn push(&mut self, batch: Vec<Bytes>) -> PortResult<Vec<Bytes>> {
        // If the thread has ended, the answer below says why.
        let _ = self.batches.send(batch).await;
        match self.packed.recv().await {
            Some(Ok(Packed::Pieces(pieces))) => Ok(pieces),
            Some(Err(error)) => Err(error),
            Some(Ok(Packed::Whole(..))) | None => Err(ended_early()),
        }
    }

    /// Returns the last pieces to be stored. It fails unless the snapshot was whole.
    pub(in crate::backup) async fn finish(self) -> PortResult<(Vec<Bytes>, Stored)> {
        let Self { batches, mut packed } = self;
        drop(batches);
        match packed.recv().await {
            Some(Ok(Packed::Whole(pieces, stored))) => Ok((pieces, stored)),
            Some(Err(error)) => Err(error),
            Some(Ok(Packed::Pieces(_))) | None => Err(ended_early()),
        }
    }
}

fn run(mut work: Work, mut to_do: mpsc::Receiver<Vec<Bytes>>, done: &mpsc::Sender<PortResult<Packed>>) {
    while let Some(batch) = to_do.blocking_recv() {
        let packed = work.push(batch).map(Packed::Pieces);
        let failed = packed.is_err();
        if done.blocking_send(packed).is_err() || failed {
            return;
        }
    }
    let whole = work
        .finish()
        .map(|(pieces, stored)| Packed::Whole(pieces, stored));
    // If the backup was abandoned, nobody receives this.
    let _ = done.blocking_send(whole);
}

pub(super) fn pack_failed(error: &io::Error) -> PortError {
    PortError::Permanent(format!("cannot compress the snapshot: {error}"))
}

fn ended_early() -> PortError {
    PortError::Retryable("the backup's worker ended early".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The scheduling policy of this thread, as `proc_pid_stat(5)` numbers it.
    fn policy() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        // The first field after the name is the third; the policy is the 41st.
        fields.split(' ').nth(41 - 3).unwrap().to_owned()
    }

    #[test]
    fn it_runs_in_the_idle_class_unless_somebody_waits() {
        let usual = policy();
        for (priority, expected) in [(Priority::Idle, "5"), (Priority::Usual, usual.as_str())] {
            let within = thread::spawn(move || {
                priority.take();
                policy()
            });
            assert_eq!(within.join().unwrap(), expected, "{priority:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_whole_has_no_end() {
        let mut worker = Worker::start(Packer::new(Compression::Zstd).unwrap(), Priority::Idle).unwrap();
        worker.push(vec![Bytes::from_static(b"x")]).await.unwrap();
        let error = worker.finish().await.err().unwrap();
        assert!(error.to_string().contains("is not whole"), "{error}");
    }
}
