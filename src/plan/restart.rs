//! Starting etcd, and starting it again when it crashed.

use std::time::Duration;

use super::context::Context;
use super::directive;
use super::local::start_fence;
use crate::model::{Action, Assignment};

/// A start that lasted this long was one.
const LASTED: Duration = Duration::from_secs(30);

/// Starts etcd: at once the first time, then with a growing pause between starts that do not last.
pub(super) fn start(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Action> {
    if cx.obs.gate.cleared != Some(assignment.generation) {
        return None;
    }
    if assignment.started && directive::paused(cx).is_some() {
        cx.because(
            "paused-start",
            "etcd.service is down and is not started during a pause: `systemctl start etcd` does, or `etcd-agent resume`",
        );
        return None;
    }
    if !cx.may_try("start-etcd", Duration::from_millis(500), Duration::from_secs(30)) {
        return None;
    }
    if let Some(at) = cx.memory.started_at {
        let since = cx.obs.now.since(at);
        if since >= LASTED {
            cx.memory.start_failures = 0;
        }
        let failures = cx.memory.start_failures;
        let pause = Duration::from_millis(500)
            .saturating_mul(1 << failures.min(6))
            .min(Duration::from_secs(30));
        if failures > 0 && since < pause {
            let unit = cx.obs.me.unit.known();
            cx.because(
                "start-backoff",
                format!(
                    "etcd.service did not stay up ({}); next start in {:.1} s: see `journalctl -u etcd`",
                    unit.map_or("unknown", |u| u.result.as_str()),
                    pause.saturating_sub(since).as_secs_f64()
                ),
            );
            cx.wake_in(pause.saturating_sub(since));
            return None;
        }
        cx.memory.start_failures = failures.saturating_add(1);
    }
    cx.memory.started_at = Some(cx.obs.now);
    cx.because(
        "start",
        format!(
            "etcd is to run as member {} of epoch {}",
            assignment.member_id, assignment.epoch
        ),
    );
    Some(Action::StartEtcd {
        fence: start_fence(assignment),
    })
}
