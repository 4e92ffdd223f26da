//! Records what happened in a schedule, and in how many schedules each thing has to happen. A large run that
//! saw too little proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use etcd_agent::model::{Event, EventOutcome};

/// The number of schedules that the floors are for.
const OF: u64 = 10_000;

/// The name under which schedules are counted that did not recover, with a reason that excuses it.
pub(crate) const EXCUSED: &str = "excuse any";
/// At most this many of a hundred schedules may have an excuse: a generator that mostly ruins its clusters
/// shows nothing.
const MOST_EXCUSED: u64 = 6;

/// The things seen in one schedule, by kind and name.
pub type Seen = BTreeSet<String>;

/// Records the actions of an agent, and its reasons.
pub fn note(seen: &mut Seen, events: &[Event]) {
    for event in events {
        let code = |reason: &String| reason.split(':').next().unwrap_or_default().to_owned();
        let codes: Vec<String> = event.reasons.iter().map(code).collect();
        let action = !matches!(event.decision.as_str(), "wait" | "halt");
        let failed = matches!(event.outcome, EventOutcome::Failed { .. });
        if action && !failed {
            seen.insert(format!("action {}", event.decision));
            if event.decision == "remove-member" && codes.iter().any(|code| code == "replace-dead") {
                seen.insert("event a dead member is replaced".to_owned());
            }
        }
        if action && failed {
            seen.insert(format!("failed {}", event.decision));
        }
        for code in codes {
            seen.insert(format!("reason {code}"));
        }
    }
}

/// The number of schedules in which each thing was seen.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    schedules: u64,
    counts: BTreeMap<String, u64>,
}

impl Coverage {
    /// Adds one schedule.
    pub fn add(&mut self, seen: &Seen) {
        self.schedules += 1;
        for one in seen {
            if let Some(count) = self.counts.get_mut(one) {
                *count += 1;
            } else {
                self.counts.insert(one.clone(), 1);
            }
        }
    }

    /// A line for each thing that was seen, and for each that has a floor.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let floors: BTreeMap<&str, u64> = floors().collect();
        let names: BTreeSet<&str> = self
            .counts
            .keys()
            .map(String::as_str)
            .chain(floors.keys().copied())
            .collect();
        for name in names {
            let floor = floors
                .get(name)
                .map_or_else(String::new, |floor| format!("  (floor {floor} of {OF})"));
            let _ = writeln!(
                text,
                "{:>8}  {name}{floor}",
                self.counts.get(name).copied().unwrap_or(0)
            );
        }
        text
    }

    /// The things that were seen too rarely, or too often. Empty for a run of fewer than `OF` schedules.
    pub fn missed(&self) -> Vec<String> {
        if self.schedules < OF {
            return Vec::new();
        }
        let seen = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let short = floors().filter(|(name, floor)| seen(name) * OF < floor * self.schedules);
        let short = short.map(|(name, floor)| {
            format!(
                "{name}: in {} of {} schedules, the floor is {floor} of {OF}",
                seen(name),
                self.schedules
            )
        });
        let excused = seen(EXCUSED);
        let too_often = (excused * 100 > MOST_EXCUSED * self.schedules).then(|| {
            format!(
                "{EXCUSED}: in {excused} of {} schedules, at most {MOST_EXCUSED} of 100 are expected",
                self.schedules
            )
        });
        short.chain(too_often).collect()
    }
}

/// The floors, well below the counts of any ten thousand schedules. Each line holds a number and a name.
fn floors() -> impl Iterator<Item = (&'static str, u64)> {
    let lines = include_str!("../floors.txt").lines();
    lines.filter_map(|line| {
        let (floor, name) = line.trim().split_once(' ')?;
        Some((name.trim(), floor.parse().ok()?))
    })
}
