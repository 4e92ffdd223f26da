//! One human line for `STATUS=`, `status` and the journal.

use super::context::Context;
use super::orders;
use crate::model::{Action, Fact};

/// E.g. `n2 follower of prod, 3/3 healthy, last backup 4m ago (rev 81237), coordinator n1`.
pub(super) fn status_line(cx: &Context<'_>, action: Option<&Action>) -> String {
    let line = line(cx, action);
    if orders::paused(cx).is_some() {
        return format!("{line}, PAUSED");
    }
    line
}

fn line(cx: &Context<'_>, action: Option<&Action>) -> String {
    let node = &cx.spec.node;
    if let Some(reason) = cx.reasons().iter().find(|r| r.halt) {
        return format!("{node} halted: {}", reason.text);
    }
    let Fact::Known(etcd) = &cx.obs.me.etcd else {
        let why = action.map_or_else(
            || {
                cx.reasons()
                    .last()
                    .map_or_else(|| "nothing to do".to_owned(), |r| r.text.clone())
            },
            |a| format!("doing {}", a.name()),
        );
        return format!("{node} of {}: {why}", cx.spec.cluster);
    };
    let role = if etcd.is_learner {
        "learner"
    } else if etcd.leader == Some(etcd.member_id) {
        "leader"
    } else {
        "follower"
    };
    let members = cx.obs.me.members.known();
    let total = members.map_or(0, |l| l.members.len());
    let healthy = members.map_or(0, |l| {
        l.members
            .iter()
            .filter(|m| {
                cx.known_nodes().iter().any(|(_, s)| {
                    s.etcd
                        .known()
                        .is_some_and(|e| e.member_id == m.id && e.leader.is_some())
                })
            })
            .count()
    });
    let mut line = format!("{node} {role} of {}, {healthy}/{total} healthy", cx.spec.cluster);
    if let Some(backup) = &cx.obs.me.last_backup {
        let age = cx.obs.now.since(backup.at);
        line.push_str(", last backup ");
        line.push_str(&coarse(age.as_secs()));
        line.push_str(" ago (rev ");
        line.push_str(&backup.revision.to_string());
        line.push(')');
    }
    if let Some(name) = cx.leading() {
        line.push_str(", coordinator ");
        line.push_str(name.as_str());
    }
    if cx.obs.me.insecure {
        line.push_str(", INSECURE");
    }
    line
}

/// An age in a single unit, which is precise enough for people.
fn coarse(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
