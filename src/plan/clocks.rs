//! Reports clock skew between nodes. It never affects decisions.

use super::context::Context;
use crate::model::ReasonCode;

/// More than the time that an answer can take.
pub(super) const MOST_MS: u64 = 10_000;

/// Names the peers whose clocks differ from this node's.
pub(super) fn differ(cx: &mut Context<'_>) {
    let off: Vec<String> = cx
        .known_peers()
        .filter_map(|(node, _)| Some((node, *cx.obs.clocks.get(node)?)))
        .filter(|(_, ahead)| ahead.unsigned_abs() > MOST_MS)
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
