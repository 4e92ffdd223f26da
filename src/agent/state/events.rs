//! The last decisions, in memory: the journal has the older ones.

use std::collections::VecDeque;

use crate::model::{Decision, Event, EventOutcome, EventsView, UnixMs};

/// How many events are kept.
const KEPT: usize = 512;

/// A ring of events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    ring: VecDeque<Event>,
    newest: u64,
}

impl Events {
    /// Notes a decision and its outcome. If the last event has the same decision and outcome, its count grows
    /// instead.
    pub(crate) fn note(&mut self, at: UnixMs, decision: &Decision, outcome: EventOutcome, duration_ms: u64) {
        self.newest += 1;
        let name = match (&decision.action, &outcome) {
            (Some(action), _) => action.name(),
            (None, EventOutcome::Halted) => "halt",
            (None, _) => "wait",
        };
        let reasons: Vec<String> = decision.reasons.iter().map(ToString::to_string).collect();
        if let Some(last) = self.ring.back_mut()
            && last.decision == name
            && last.outcome == outcome
            && codes(&last.reasons).eq(codes(&reasons))
        {
            last.seq = self.newest;
            last.at = at;
            last.reasons = reasons;
            last.duration_ms = duration_ms;
            last.times = last.times.saturating_add(1);
            return;
        }
        if self.ring.len() >= KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(Event {
            seq: self.newest,
            at,
            decision: name.to_owned(),
            reasons,
            outcome,
            duration_ms,
            times: 1,
        });
    }

    /// Notes why nothing is done, if that has changed.
    pub(crate) fn note_wait(&mut self, at: UnixMs, decision: &Decision, last: Option<&Decision>) {
        let codes = |d: &Decision| d.reasons.iter().map(|r| r.code.clone()).collect::<Vec<_>>();
        let same = last.is_some_and(|last| last.action.is_none() && codes(last) == codes(decision));
        if decision.action.is_some() || decision.reasons.is_empty() || same {
            return;
        }
        let halted = decision.reasons.iter().any(|reason| reason.halt);
        let outcome = if halted {
            EventOutcome::Halted
        } else {
            EventOutcome::Waits
        };
        self.note(at, decision, outcome, 0);
    }

    /// The events after the one with this number.
    pub(crate) fn after(&self, seq: u64) -> EventsView {
        EventsView {
            newest: self.newest,
            events: self
                .ring
                .iter()
                .filter(|event| event.seq > seq)
                .cloned()
                .collect(),
        }
    }
}

/// The codes of formatted reasons: the part before the colon.
fn codes(reasons: &[String]) -> impl Iterator<Item = &str> {
    reasons
        .iter()
        .map(|reason| reason.split(':').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Action, Memory, Reason};

    fn decision(action: Option<Action>, code: &str, halt: bool) -> Decision {
        let reason = Reason {
            code: code.into(),
            text: "because".to_owned(),
            halt,
        };
        Decision {
            action,
            reasons: vec![reason],
            wake: Duration::ZERO,
            memory: Memory::default(),
            coordinator: false,
            text: String::new(),
            order: None,
        }
    }

    #[test]
    fn the_same_again_is_one_event_and_the_ring_is_bounded() {
        let mut events = Events::default();
        let inspect = decision(Some(Action::InspectData), "a", false);
        for at in 1..=3 {
            events.note(UnixMs(at), &inspect, EventOutcome::Done, 7);
        }
        let failed = EventOutcome::Failed {
            error: "no".to_owned(),
        };
        events.note(UnixMs(4), &inspect, failed, 7);
        let view = events.after(0);
        assert_eq!(view.newest, 4);
        let seen: Vec<(u64, u64)> = view.events.iter().map(|e| (e.seq, e.times)).collect();
        assert_eq!(seen, [(3, 3), (4, 1)]);
        assert_eq!(events.after(3).events.len(), 1);
        for n in 0..KEPT as u64 {
            let other = decision(Some(Action::InspectData), &n.to_string(), false);
            events.note(UnixMs(n), &other, EventOutcome::Done, 0);
        }
        let view = events.after(0);
        assert_eq!(view.events.len(), KEPT);
        assert!(view.events.iter().all(|event| event.decision == "inspect-data"));
    }

    #[test]
    fn waiting_is_noted_when_its_reasons_change() {
        let mut events = Events::default();
        let (waits, halts) = (decision(None, "a", false), decision(None, "b", true));
        events.note_wait(UnixMs(1), &waits, None);
        events.note_wait(UnixMs(2), &waits, Some(&waits));
        events.note_wait(UnixMs(3), &halts, Some(&waits));
        let names: Vec<String> = events.after(0).events.into_iter().map(|e| e.decision).collect();
        assert_eq!(names, ["wait", "halt"]);
    }
}
