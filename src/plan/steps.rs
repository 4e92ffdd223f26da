//! What follows from an order, in words.

use crate::model::DirectiveChange;

/// What follows from this order, one line a step.
pub fn steps(change: &DirectiveChange) -> Vec<String> {
    let lines: &[&str] = match change {
        DirectiveChange::Pause => &[
            "every agent stops acting by itself: no member is added, removed or replaced, nothing is restarted or started, \
             no backup is due",
            "what a person asks for goes on, and so does what keeps data safe",
        ],
        DirectiveChange::Resume => &["every agent acts by itself again"],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}
