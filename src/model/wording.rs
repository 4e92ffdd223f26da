//! How facts are worded for people: the same words in the output of commands and on the status page.

use std::time::Duration;

use super::{ActiveState, AdminStatus, DataState, EventOutcome, LoadState, NodeStatus, UnitState, UnixMs};

/// What the agent says about the cluster and its own work, in one line.
pub fn headline(status: &AdminStatus) -> &str {
    if status.starting {
        return "the agent has just started and has not observed the cluster yet: ask again in a moment";
    }
    [&status.decision.text, &status.node.text]
        .into_iter()
        .find(|text| !text.is_empty())
        .map_or("the agent has just started", |text| text.as_str())
}

/// The role of a node's etcd member.
pub fn role(node: &NodeStatus) -> &'static str {
    match node.etcd.known() {
        Some(etcd) if etcd.is_learner => "learner",
        Some(etcd) if etcd.leader == Some(etcd.member_id) => "leader",
        Some(etcd) if etcd.leader.is_some() => "follower",
        Some(_) => "no leader",
        None if node.assignment.is_none() && node.genesis.is_some() => "spare",
        None => "-",
    }
}

/// The state of `etcd.service`.
pub fn unit(unit: &UnitState) -> String {
    if unit.held {
        return "held".to_owned();
    }
    if unit.load != LoadState::Loaded {
        return unit.load.as_str().to_owned();
    }
    match unit.active {
        ActiveState::Active => "active".to_owned(),
        ActiveState::Inactive => "inactive".to_owned(),
        ActiveState::Failed => format!("failed ({})", unit.result),
        ActiveState::Activating => format!("activating ({})", unit.sub),
        ActiveState::Deactivating => format!("stopping ({})", unit.sub),
        ActiveState::Reloading | ActiveState::Maintenance => unit.sub.clone(),
    }
}

/// The state of the data directory.
pub fn data(data: &DataState) -> &'static str {
    match data {
        DataState::Present { .. } => "present",
        DataState::Missing => "missing",
        DataState::Unusable { .. } => "unusable",
    }
}

/// How a decision ended, and its error.
pub fn outcome(outcome: &EventOutcome) -> (&'static str, Option<&str>) {
    match outcome {
        EventOutcome::Done => ("done", None),
        EventOutcome::Begun => ("begun", None),
        EventOutcome::Failed { error } => ("failed", Some(error)),
        EventOutcome::Waits => ("waits", None),
        EventOutcome::Halted => ("halted", None),
    }
}

/// How long an action took, in milliseconds; a dash without one.
pub fn took(ms: u64) -> String {
    match ms {
        0 => "-".to_owned(),
        ms @ 1..1000 => format!("{ms}ms"),
        ms => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
    }
}

/// A time span, rounded to one unit.
pub fn age(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Bytes with a binary unit.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths /= 1024;
        unit += 1;
    }
    let unit = units.get(unit).copied().unwrap_or("KiB");
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A point in time, UTC, to the second.
pub fn time(at: UnixMs) -> String {
    i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(
            || format!("{} ms", at.0),
            |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(8 << 30), "8.0 GiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
        assert_eq!(age(Duration::from_secs(59)), "59s");
        assert_eq!(age(Duration::from_mins(61)), "1h");
        assert_eq!(age(Duration::from_hours(49)), "2d");
        assert_eq!(time(UnixMs(1_700_000_000_123)), "2023-11-14T22:13:20Z");
    }
}
