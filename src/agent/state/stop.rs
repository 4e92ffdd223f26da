//! A stop of `etcd.service` that the gate holds back until it has leave, and stops that the agent itself asks
//! for.

use std::time::Duration;

use crate::model::SteadyMs;

/// The gate asks every 200 ms. A stop that it has not asked for within this time is over, or goes on without
/// leave.
const ASKED_WITHIN: Duration = Duration::from_secs(3);

/// Another member that is down for this long does not come back by itself. A restart by systemd takes less.
const DOWN_FOR: Duration = Duration::from_secs(3);

/// The stop of one etcd process.
#[derive(Debug, Default)]
pub(in crate::agent) struct StopAsk {
    /// The process that is to stop.
    pid: u32,
    /// When the gate asked last.
    asked: Option<SteadyMs>,
    /// When it asked first.
    since: SteadyMs,
    /// True once it has leave: the process is about to end.
    left: bool,
    /// The process that the agent itself asked systemd to stop.
    own: Option<u32>,
    /// Since when another member is down.
    down_since: Option<SteadyMs>,
}

impl StopAsk {
    /// The gate asks for leave for this process.
    pub(in crate::agent) fn ask(&mut self, pid: u32, now: SteadyMs) {
        let another = self.pid != pid;
        if another {
            (self.pid, self.left) = (pid, false);
        }
        if another || !self.is_recent(now) {
            self.since = now;
        }
        self.asked = Some(now);
    }

    /// Notes whether another member is down now. Returns true once it has been down for a while.
    pub(in crate::agent) fn down_for_long(&mut self, down: bool, now: SteadyMs) -> bool {
        self.down_since = self.down_since.or(Some(now)).filter(|_| down);
        self.down_since.is_some_and(|since| now.since(since) >= DOWN_FOR)
    }

    /// The process has leave.
    pub(in crate::agent) fn leave(&mut self) {
        self.left = true;
    }

    /// True while a stop of this process waits for leave.
    pub(in crate::agent) fn waits(&self, pid: u32, now: SteadyMs) -> bool {
        self.pid == pid && self.is_recent(now) && !self.left
    }

    /// How long a stop of this process has been waiting for leave; `None` if none waits.
    pub(in crate::agent) fn waited(&self, pid: u32, now: SteadyMs) -> Option<Duration> {
        self.waits(pid, now).then(|| now.since(self.since))
    }

    fn is_recent(&self, now: SteadyMs) -> bool {
        self.asked.is_some_and(|at| now.since(at) < ASKED_WITHIN)
    }

    /// The agent asks systemd for a stop or a restart of this process.
    pub(in crate::agent) fn note_own(&mut self, pid: u32) {
        self.own = Some(pid);
    }

    /// True if the agent itself asked for the stop of this process.
    pub(in crate::agent) fn is_own(&self, pid: u32) -> bool {
        self.own == Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_waits_until_it_has_leave_or_is_not_asked_for_any_more() {
        let mut stop = StopAsk::default();
        assert!(!stop.waits(7, SteadyMs(0)));
        stop.ask(7, SteadyMs(1000));
        assert!(stop.waits(7, SteadyMs(1200)));
        assert!(!stop.waits(8, SteadyMs(1200)), "another process");
        stop.ask(7, SteadyMs(1400));
        assert_eq!(
            stop.waited(7, SteadyMs(1500)),
            Some(Duration::from_millis(500)),
            "since it was first asked for"
        );
        assert!(!stop.waits(7, SteadyMs(4400)), "the gate no longer asks");
        assert_eq!(stop.waited(7, SteadyMs(4400)), None);
        stop.ask(7, SteadyMs(5000));
        assert_eq!(
            stop.waited(7, SteadyMs(5000)),
            Some(Duration::ZERO),
            "another stop"
        );
        stop.leave();
        stop.ask(7, SteadyMs(5100));
        assert!(!stop.waits(7, SteadyMs(5200)), "it is about to end");
        stop.ask(8, SteadyMs(9000));
        assert!(stop.waits(8, SteadyMs(9100)), "the next process");
        assert!(!stop.down_for_long(true, SteadyMs(9000)));
        assert!(!stop.down_for_long(true, SteadyMs(11_900)));
        assert!(
            !stop.down_for_long(false, SteadyMs(12_000)),
            "systemd restarted it"
        );
        assert!(!stop.down_for_long(true, SteadyMs(12_100)));
        assert!(stop.down_for_long(true, SteadyMs(15_100)));
        assert!(!stop.is_own(8));
        stop.note_own(8);
        assert!(stop.is_own(8) && !stop.is_own(9));
    }
}
