//! Notifies systemd: readiness, a status line, and a watchdog that is fed by the loop.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Instant, sleep};

use crate::model::visible::{escaped, is_hidden};

/// How often the watchdog is fed. systemd waits longer (`WatchdogSec=` of the units).
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// The longest text of `STATUS=`, in bytes. systemd ignores a notification of more than 4096 (`NOTIFY_BUFFER_MAX` in
/// its `src/core/manager.c`).
const LONGEST_STATUS: usize = 2000;

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
    notify(&[NotifyState::Status(&status_line(text))]);
}

/// The text on one line, without characters that a terminal obeys: it may have words of another node, and a line of its
/// own would be a notification of its own (`sd_notify(3)`).
fn status_line(text: &str) -> String {
    let plain = escaped(text, is_hidden);
    let end = plain.floor_char_boundary(LONGEST_STATUS);
    match plain.split_at(end) {
        (all, "") => all.to_owned(),
        (start, _) => format!("{start}…"),
    }
}

/// `WATCHDOG=1`, only ever from the loop.
pub(super) fn feed() {
    notify(&[NotifyState::Watchdog]);
}

/// Waits for `work` and feeds the watchdog meanwhile, for at most `longest`. Work that takes longer hangs: systemd
/// then ends the agent.
pub(super) async fn feed_during<T>(longest: Duration, work: impl Future<Output = T>) -> T {
    beat_during(BEAT, longest, feed, work).await
}

async fn beat_during<T>(
    every: Duration,
    longest: Duration,
    beat: impl Fn(),
    work: impl Future<Output = T>,
) -> T {
    let hangs_at = Instant::now() + longest;
    let beats = async {
        while Instant::now() < hangs_at {
            beat();
            sleep(every).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        done = work => done,
        never = beats => never,
    }
}

/// `STOPPING=1`.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn a_text_of_another_node_adds_no_notification_and_no_escape() {
        let text = "n2 reports etcd 3.3.1\nWATCHDOG=trigger\nSTOPPING=1 \u{1b}[2J";
        let said = NotifyState::Status(&status_line(text)).to_string();
        assert_eq!(
            said,
            "STATUS=n2 reports etcd 3.3.1\\nWATCHDOG=trigger\\nSTOPPING=1 \\u{1b}[2J"
        );
        let long = status_line(&"ü\n".repeat(2000));
        assert!(long.len() <= LONGEST_STATUS + 3 && long.ends_with('…'), "{long}");
        assert_eq!(
            status_line("n1 leader of prod, 3/3 healthy"),
            "n1 leader of prod, 3/3 healthy"
        );
    }

    /// An inspection of a large database may take longer than `WatchdogSec=60`. An action that hangs is not kept
    /// alive for ever.
    #[tokio::test]
    async fn the_watchdog_is_fed_during_long_work_and_not_for_ever() {
        let every = Duration::from_millis(1);
        let (beats, mut seen) = watch::channel(0);
        let beat = || beats.send_modify(|beats| *beats += 1);
        let work = async { seen.wait_for(|beats| *beats == 5).await.is_ok() };
        assert!(beat_during(every, Duration::from_hours(1), beat, work).await);
        beat_during(every, Duration::ZERO, beat, sleep(every * 20)).await;
        assert_eq!(*beats.borrow(), 5, "work beyond its bound hangs");
    }
}
