//! Keeps one connection alive, follows signals and keeps the unit's state. systemd drops out of the bus when it
//! re-executes, and the bus itself may restart: then all is set up again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, broadcast, watch};
use zbus::message::Type;
use zbus::{MessageStream, OwnedObjectPath};

use super::error::{Ask, lost};
use super::live::Live;
use super::marker;
use super::state::RawState;
use crate::model::UnitState;
use crate::paths::Paths;
use crate::ports::PortResult;

/// The end of a job.
#[derive(Debug, Clone)]
pub(super) struct JobEnd {
    pub(super) job: OwnedObjectPath,
    pub(super) result: String,
}

/// What the watcher knows, shared with the adapter.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) paths: Paths,
    pub(super) live: watch::Sender<Option<Live>>,
    pub(super) jobs: broadcast::Sender<JobEnd>,
    pub(super) changed: Notify,
    /// Grows whenever systemd may have read its files anew.
    pub(super) reloads: AtomicU64,
    raw: Mutex<PortResult<RawState>>,
    reported: Mutex<Option<UnitState>>,
    stale: Notify,
}

/// A signal can be missed only by a bug; this bounds how long that would matter.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
const RECONNECT_FROM: Duration = Duration::from_millis(50);
const RECONNECT_TO: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) fn new(paths: Paths) -> Self {
        Self {
            paths,
            live: watch::Sender::new(None),
            jobs: broadcast::Sender::new(256),
            changed: Notify::new(),
            reloads: AtomicU64::new(0),
            raw: Mutex::new(Err(lost("read etcd.service", Ask::Read, "not connected yet"))),
            reported: Mutex::new(None),
            stale: Notify::new(),
        }
    }

    /// The unit's last known state, or why there is none.
    pub(super) fn state(&self) -> PortResult<UnitState> {
        let raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Ok(raw.state(marker::read(&self.paths)))
    }

    fn set(&self, raw: PortResult<RawState>) {
        *self.raw.lock().unwrap_or_else(PoisonError::into_inner) = raw;
        self.note();
    }

    /// Wakes who waits for a change, if the state is another than the last one told.
    pub(super) fn note(&self) {
        let state = self.state().ok();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != state {
            *reported = state;
            self.changed.notify_one();
        }
    }

    /// Reads the state anew over this connection.
    pub(super) async fn refresh(&self, live: &Live) -> zbus::Result<RawState> {
        let raw = live.state().await?;
        self.set(Ok(raw.clone()));
        Ok(raw)
    }
}

/// Runs until the adapter is dropped.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut pause = RECONNECT_FROM;
    loop {
        let why = match session(&shared, &mut pause).await {
            Ok(()) => "systemd left the bus".to_owned(),
            Err(error) => error.to_string(),
        };
        shared.live.send_replace(None);
        shared.reloads.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(error = %why, "connection to systemd lost");
        shared.set(Err(lost("read etcd.service", Ask::Read, &why.replace('\n', " "))));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_TO);
    }
}

async fn session(shared: &Shared, pause: &mut Duration) -> zbus::Result<()> {
    let live = Live::connect().await?;
    let stream = live.listen().await?;
    shared.reloads.fetch_add(1, Ordering::Relaxed);
    // Reading messages never waits for anything, so that a burst of them blocks nobody's reply.
    let reader = read(shared, stream, &live.path);
    let refresher = async {
        loop {
            shared.refresh(&live).await?;
            if shared.live.borrow().is_none() {
                shared.live.send_replace(Some(live.clone()));
                *pause = RECONNECT_FROM;
            }
            let _ = tokio::time::timeout(REFRESH_EVERY, shared.stale.notified()).await;
        }
    };
    tokio::select! {
        ended = reader => ended,
        failed = refresher => failed,
    }
}

async fn read(shared: &Shared, mut stream: MessageStream, unit: &OwnedObjectPath) -> zbus::Result<()> {
    while let Some(message) = stream.next().await {
        let message = message?;
        if message.message_type() != Type::Signal {
            continue;
        }
        let header = message.header();
        let Some(member) = header.member() else { continue };
        match member.as_str() {
            "PropertiesChanged" if header.path().is_some_and(|path| *path == unit.as_ref()) => {
                shared.stale.notify_one();
            }
            "JobRemoved" => {
                let body = message.body();
                let (_, job, _, result): (u32, OwnedObjectPath, String, String) = body.deserialize()?;
                let _ = shared.jobs.send(JobEnd { job, result });
            }
            "Reloading" => {
                shared.reloads.fetch_add(1, Ordering::Relaxed);
                shared.stale.notify_one();
            }
            "NameOwnerChanged" => {
                let body = message.body();
                let (name, _, _): (String, String, String) = body.deserialize()?;
                if name == "org.freedesktop.systemd1" {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    Ok(())
}
