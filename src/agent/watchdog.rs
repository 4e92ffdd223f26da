//! Notifies systemd: readiness, a status line, and a watchdog that is fed by the loop.

use sd_notify::NotifyState;

fn notify(states: &[NotifyState<'_>]) {
    // Fails when the agent does not run under systemd.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("systemd was not notified: {error}");
    }
}

/// `READY=1`.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// `RELOADING=1`, until the next [`ready`].
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("systemd was not notified of the reload: {error}"),
    }
}

/// `STATUS=`.
pub(super) fn say(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// `WATCHDOG=1`, only ever from the loop.
pub(super) fn feed() {
    notify(&[NotifyState::Watchdog]);
}

/// `STOPPING=1`.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}
