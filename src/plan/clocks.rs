//! Reports clock skew between nodes. It never affects decisions.

use std::time::Duration;

use super::context::Context;
use crate::model::ReasonCode;

/// Clocks may differ by this much. This is more than the time that an answer can take.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(10);

/// Names the peers whose clocks differ from this node's.
pub(super) fn differ(cx: &mut Context<'_>) {
    let off: Vec<String> = cx
        .known_peers()
        .filter_map(|(node, _)| Some((node, *cx.obs.clocks.get(node)?)))
        .filter(|(_, ahead)| Duration::from_millis(ahead.unsigned_abs()) > CLOCK_SKEW)
        .map(|(node, ahead)| {
            let seconds = ahead.unsigned_abs() / 1000;
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            format!("{node} is {seconds} s {side} this node")
        })
        .collect();
    if !off.is_empty() {
        cx.because(
            ReasonCode::ClockSkew,
            format!("clocks differ: {}", off.join(", ")),
        );
    }
}
