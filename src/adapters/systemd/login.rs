//! Delays a shutdown of the host with a lock of logind (`systemd-inhibit(1)`, `org.freedesktop.login1(5)`,
//! <https://systemd.io/INHIBITOR_LOCKS/>).

use std::time::Duration;

use futures::StreamExt;

use super::live::Live;
use crate::ports::ShutdownLock;

/// Takes a delay lock and returns it when a shutdown begins.
///
/// # Errors
/// Any error of zbus: there is no logind, it refuses the lock because a shutdown is under way, or the
/// connection has ended.
pub(super) async fn shutdown_begins(live: &Live) -> zbus::Result<ShutdownLock> {
    let login = live.login().await?;
    // Before the lock is taken: logind sends the signal once, to those who listen.
    let mut signals = login.receive_prepare_for_shutdown().await?;
    let why = "Move the raft leader to another host";
    let lock = login.inhibit("shutdown", "etcd-agent", why, "delay").await?;
    let within = Duration::from_micros(login.inhibit_delay_max_usec().await?);
    while let Some(signal) = signals.next().await {
        if *signal.args()?.start() {
            return Ok(ShutdownLock {
                within,
                lock: Box::new(lock),
            });
        }
    }
    Err(zbus::Error::Failure(
        "the connection to the bus has ended".to_owned(),
    ))
}
