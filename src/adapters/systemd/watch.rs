//! Keeps one connection alive, follows signals and keeps the unit's state. systemd leaves the bus when it
//! re-executes, and the bus itself may restart. The watcher then sets everything up again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, broadcast, watch};
use zbus::message::Type;
use zbus::names::OwnedUniqueName;
use zbus::{Message, MessageStream, OwnedObjectPath};

use super::error::{Ask, lost};
use super::live::{BUS, Live, SYSTEMD};
use super::marker;
use super::state::RawState;
use crate::model::{Backoff, UnitState};
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
    /// Increases whenever systemd may have reloaded its files.
    pub(super) reloads: AtomicU64,
    /// How many stops and restarts of this agent are in progress.
    asking: AtomicU64,
    raw: Mutex<PortResult<RawState>>,
    reported: Mutex<Option<UnitState>>,
    stale: Notify,
    /// Whether a signal of another sender was already logged. Only the first one is logged.
    foreign_logged: AtomicBool,
}

/// How often the state is read without a signal. Only a bug can miss a signal; this bounds the time until its
/// effect ends.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

impl Shared {
    pub(super) fn new(paths: Paths) -> Self {
        Self {
            paths,
            live: watch::Sender::new(None),
            jobs: broadcast::Sender::new(256),
            changed: Notify::new(),
            reloads: AtomicU64::new(0),
            asking: AtomicU64::new(0),
            raw: Mutex::new(Err(lost("read etcd.service", Ask::Read, "not connected yet"))),
            reported: Mutex::new(None),
            stale: Notify::new(),
            foreign_logged: AtomicBool::new(false),
        }
    }

    /// The unit's last known state, or why there is none.
    pub(super) fn state(&self) -> PortResult<UnitState> {
        let raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Ok(raw.state(marker::read(&self.paths), marker::is_held(&self.paths)))
    }

    fn set(&self, raw: PortResult<RawState>) {
        *self.raw.lock().unwrap_or_else(PoisonError::into_inner) = raw;
        self.note();
    }

    /// Wakes the task that waits for a change, if the state differs from the last one reported.
    pub(super) fn note(&self) {
        let state = self.state().ok();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != state {
            *reported = state;
            self.changed.notify_one();
        }
    }

    /// Reads the state again over this connection.
    pub(super) async fn refresh(&self, live: &Live) -> zbus::Result<RawState> {
        let raw = live.state().await?;
        self.settle(&raw);
        self.set(Ok(raw.clone()));
        Ok(raw)
    }

    /// Removes the marker of a stop that this agent requested and that failed, perhaps in an earlier run of
    /// the agent. The next stop is another user's. Records a stop of an operator, which systemd forgets when it
    /// unloads the unit.
    fn settle(&self, raw: &RawState) {
        if !raw.is_forgotten() {
            marker::note_held(&self.paths, raw.is_held(marker::read(&self.paths)));
        }
        let asking = self.asking.load(Ordering::SeqCst) > 0;
        if !asking && raw.stays_up() && marker::read(&self.paths) == Some(raw.inactive_exit) {
            marker::remove(&self.paths);
        }
    }

    /// Begins a stop or a restart. Until the returned value is dropped, [`Shared::settle`] keeps the marker.
    pub(super) fn ask(self: &Arc<Self>) -> Asking {
        self.asking.fetch_add(1, Ordering::SeqCst);
        Asking(Arc::clone(self))
    }
}

/// A stop or a restart of this agent that is in progress.
#[derive(Debug)]
pub(super) struct Asking(Arc<Shared>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
        self.0.stale.notify_one();
    }
}

/// Runs until the adapter is dropped.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let why = match session(&shared, &mut failures).await {
            Ok(()) => "systemd left the bus".to_owned(),
            Err(error) => error.to_string(),
        };
        shared.live.send_replace(None);
        shared.reloads.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(etcd_agent.error = %why, "connection to systemd lost");
        shared.set(Err(lost("read etcd.service", Ask::Read, &why.replace('\n', " "))));
        failures = failures.saturating_add(1);
        tokio::time::sleep(RECONNECT.after(failures)).await;
    }
}

async fn session(shared: &Shared, failures: &mut u32) -> zbus::Result<()> {
    let live = Live::connect().await?;
    if let Err(error) = live.keep_loaded().await {
        tracing::warn!(
            "systemd may unload etcd.service while it is down and disabled, and forget who stopped it: {error}"
        );
    }
    let (stream, owner) = live.listen().await?;
    shared.reloads.fetch_add(1, Ordering::Relaxed);
    // Reading messages never blocks, so that a burst of them does not delay a reply.
    let reader = read(shared, stream, &live.path, &owner);
    let refresher = async {
        loop {
            shared.refresh(&live).await?;
            if shared.live.borrow().is_none() {
                shared.live.send_replace(Some(live.clone()));
                *failures = 0;
            }
            let _ = tokio::time::timeout(REFRESH_EVERY, shared.stale.notified()).await;
        }
    };
    tokio::select! {
        ended = reader => ended,
        failed = refresher => failed,
    }
}

async fn read(
    shared: &Shared,
    mut stream: MessageStream,
    unit: &OwnedObjectPath,
    systemd: &OwnedUniqueName,
) -> zbus::Result<()> {
    while let Some(message) = stream.next().await {
        match change_in(&message?, unit, systemd) {
            Change::Changed => shared.stale.notify_one(),
            Change::JobEnded(end) => {
                let _ = shared.jobs.send(end);
            }
            Change::Reloading => {
                shared.reloads.fetch_add(1, Ordering::Relaxed);
                shared.stale.notify_one();
            }
            Change::Left => return Ok(()),
            Change::None => {}
            Change::Foreign(what) => {
                if !shared.foreign_logged.swap(true, Ordering::Relaxed) {
                    tracing::warn!("ignored a signal on the system bus: {what} (logged only once)");
                }
            }
        }
    }
    Ok(())
}

/// The meaning of a message on the bus.
#[derive(Debug)]
enum Change {
    /// The unit's state may have changed.
    Changed,
    /// A job has ended.
    JobEnded(JobEnd),
    /// systemd reloads its files.
    Reloading,
    /// systemd has left the bus, or joined it.
    Left,
    /// A message that is not relevant here.
    None,
    /// A signal that looks like systemd's but has another sender, or that cannot be read. Any local user can
    /// send such a signal.
    Foreign(String),
}

/// Interprets one message. Only messages from the bus or from the owner of systemd's name count.
fn change_in(message: &Message, unit: &OwnedObjectPath, systemd: &OwnedUniqueName) -> Change {
    if message.message_type() != Type::Signal {
        return Change::None;
    }
    let header = message.header();
    let Some(member) = header.member().map(zbus::names::MemberName::as_str) else {
        return Change::None;
    };
    let from = match member {
        "PropertiesChanged" | "JobRemoved" | "Reloading" => systemd.as_str(),
        "NameOwnerChanged" => BUS,
        _ => return Change::None,
    };
    let sender = header.sender().map_or("nobody", zbus::names::UniqueName::as_str);
    if sender != from {
        return Change::Foreign(format!("{member} of {sender}, which is not {from}"));
    }
    let unreadable = |error: zbus::Error| Change::Foreign(format!("{member} of {sender}: {error}"));
    match member {
        "PropertiesChanged" if header.path().is_some_and(|path| *path == unit.as_ref()) => Change::Changed,
        "JobRemoved" => match message
            .body()
            .deserialize::<(u32, OwnedObjectPath, String, String)>()
        {
            Ok((_, job, _, result)) => Change::JobEnded(JobEnd { job, result }),
            Err(error) => unreadable(error),
        },
        "Reloading" => Change::Reloading,
        "NameOwnerChanged" => match message.body().deserialize::<(String, String, String)>() {
            Ok((name, _, _)) if name == SYSTEMD => Change::Left,
            Ok(_) => Change::None,
            Err(error) => unreadable(error),
        },
        _ => Change::None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    const MANAGER: &str = "org.freedesktop.systemd1.Manager";

    fn read<B>(sender: &str, interface: &str, member: &str, body: &B) -> Change
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let unit = OwnedObjectPath::try_from("/org/freedesktop/systemd1/unit/etcd_2eservice").unwrap();
        let systemd = OwnedUniqueName::try_from(":1.1").unwrap();
        let message = Message::signal(unit.as_str(), interface, member).sender(sender);
        let message = message.build(body).unwrap();
        change_in(&message, &unit, &systemd)
    }

    #[test]
    fn b06_only_systemds_own_signals_count() {
        let job = OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/7").unwrap();
        let ended = (7_u32, job, "etcd.service", "done");
        let Change::JobEnded(end) = read(":1.1", MANAGER, "JobRemoved", &ended) else {
            panic!("systemd's own signal counts");
        };
        assert_eq!(end.result, "done");
        let owner = (SYSTEMD, ":1.1", "");
        assert!(matches!(read(BUS, BUS, "NameOwnerChanged", &owner), Change::Left));
        assert!(matches!(
            read(":1.1", MANAGER, "Reloading", &true),
            Change::Reloading
        ));
        // The same signals from another sender, and unreadable ones, end and change nothing.
        let foreign = [
            read(":1.9", MANAGER, "JobRemoved", &ended),
            read(":1.9", MANAGER, "JobRemoved", &"hi"),
            read(":1.1", MANAGER, "JobRemoved", &"hi"),
            read(":1.9", MANAGER, "Reloading", &true),
            read(":1.9", BUS, "NameOwnerChanged", &owner),
            read(
                ":1.9",
                "org.freedesktop.DBus.Properties",
                "PropertiesChanged",
                &"hi",
            ),
            read(BUS, BUS, "NameOwnerChanged", &"hi"),
        ];
        for news in foreign {
            assert!(matches!(news, Change::Foreign(_)), "{news:?}");
        }
    }

    /// systemd unloads a unit that is down and not enabled as soon as nothing refers to it, for example while the
    /// agent is restarted.
    #[test]
    fn i_an_operators_stop_is_remembered_when_systemd_has_forgotten_it() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::below(dir.path());
        std::fs::create_dir_all(paths.run()).unwrap();
        let shared = Shared::new(paths);
        let stopped = RawState {
            active: "inactive".into(),
            result: "success".into(),
            inactive_exit: 77,
            ..RawState::default()
        };
        let forgotten = RawState {
            inactive_exit: 0,
            ..stopped.clone()
        };
        let up = RawState {
            active: "active".into(),
            inactive_exit: 88,
            ..stopped.clone()
        };
        let held = |raw: &RawState| {
            shared.settle(raw);
            raw.state(marker::read(&shared.paths), marker::is_held(&shared.paths))
                .held
        };
        assert!(!held(&forgotten), "never started in this boot");
        assert!(held(&stopped));
        assert!(held(&forgotten));
        assert!(!held(&up), "an operator has started it");
        assert!(!held(&forgotten), "it ended, and nobody had stopped it");
        // A stop of the agent itself is none of an operator.
        marker::write(&shared.paths, 77).unwrap();
        assert!(!held(&stopped));
        assert!(!held(&forgotten));
    }

    #[test]
    fn b03_the_marker_of_a_stop_that_came_to_nothing_goes() {
        let up = RawState {
            active: "active".into(),
            inactive_exit: 77,
            ..RawState::default()
        };
        let stopping = RawState {
            active: "deactivating".into(),
            ..up.clone()
        };
        let queued = RawState { job: 9, ..up.clone() };
        let table = [
            ("etcd is up, and no job is queued", &up, false, None),
            ("the stop is being requested", &up, true, Some(77)),
            ("its job is queued", &queued, false, Some(77)),
            ("the stop is in progress", &stopping, false, Some(77)),
        ];
        for (what, raw, asks, left) in table {
            let dir = tempfile::tempdir().unwrap();
            let paths = Paths::below(dir.path());
            std::fs::create_dir_all(paths.run()).unwrap();
            let shared = Arc::new(Shared::new(paths));
            marker::write(&shared.paths, 77).unwrap();
            let asking = asks.then(|| shared.ask());
            shared.settle(raw);
            assert_eq!(marker::read(&shared.paths), left, "{what}");
            drop(asking);
            shared.settle(&up);
            assert_eq!(marker::read(&shared.paths), None, "{what}, then etcd stays up");
        }
    }
}
