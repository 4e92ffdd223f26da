//! The state of `etcd.service`, and whether an operator holds it. Pure functions.

use crate::model::{ActiveState, LoadState, UnitState};

/// The unit's properties as returned over D-Bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RawState {
    pub(super) active: String,
    pub(super) sub: String,
    pub(super) load: LoadState,
    /// When the unit last left `inactive` in this boot, in microseconds; 0 if it never did. The value
    /// identifies one activation.
    pub(super) inactive_exit: u64,
    /// When the unit last left `active`, on the same clock: when a stop began, or when its process had ended.
    pub(super) active_exit: u64,
    /// The job that is queued or runs for the unit; 0 if there is none.
    pub(super) job: u32,
    pub(super) result: String,
    pub(super) main_pid: u32,
    /// `ExecMainCode`: `CLD_EXITED` (1) and so on, see `waitid(2)`; 0 if the main process has not ended.
    pub(super) main_code: i32,
    /// When the main process ended, on the same clock.
    pub(super) main_exit: u64,
}

const CLD_EXITED: i32 = 1;

impl RawState {
    /// Interprets the properties. `stopped` is the activation that the agent itself asked to stop, `was_held`
    /// whether an operator held the unit when systemd last knew.
    pub(super) fn state(&self, stopped: Option<u64>, was_held: bool) -> UnitState {
        let stopped_by_a_person = if self.is_forgotten() {
            was_held
        } else {
            self.is_held(stopped)
        };
        UnitState {
            active: self.active_state(),
            sub: self.sub.clone(),
            result: self.result.clone(),
            main_pid: self.main_pid,
            load: self.load.clone(),
            held: stopped_by_a_person || self.load == LoadState::Masked,
            ended_us: self.main_exit,
        }
    }

    fn active_state(&self) -> ActiveState {
        match self.active.as_str() {
            "active" => ActiveState::Active,
            "reloading" | "refreshing" => ActiveState::Reloading,
            "failed" => ActiveState::Failed,
            "activating" => ActiveState::Activating,
            "deactivating" => ActiveState::Deactivating,
            "maintenance" => ActiveState::Maintenance,
            _ => ActiveState::Inactive,
        }
    }

    /// True if the unit is down, and systemd does not know that it ever was up in this boot. It never was, or
    /// systemd has unloaded it since.
    pub(super) fn is_forgotten(&self) -> bool {
        self.active_state() == ActiveState::Inactive && self.inactive_exit == 0
    }

    /// Whether a person has stopped the unit: it was up in this boot and is down without a failure, unless the
    /// agent requested the stop or the process ended by itself. A process ends by itself without a failure in
    /// two cases: an etcd that was removed from its cluster exits with 0, and an etcd that gets SIGTERM from a
    /// sender other than systemd ends by that signal, which systemd counts as a success.
    pub(super) fn is_held(&self, stopped: Option<u64>) -> bool {
        self.active_state() == ActiveState::Inactive
            && self.result == "success"
            && self.inactive_exit != 0
            && self.main_code != CLD_EXITED
            && !self.ended_before_the_stop()
            && stopped != Some(self.inactive_exit)
    }

    /// Whether the process ended before any stop began. A stop takes the unit out of `active` and then
    /// signals the process. If the process ends by itself, the unit leaves `active` afterwards. For an
    /// activation that never became active, the order is unknown and the answer is no.
    fn ended_before_the_stop(&self) -> bool {
        self.main_code != 0 && self.inactive_exit < self.main_exit && self.main_exit <= self.active_exit
    }

    /// True if the unit is up and has no job queued: no stop of this activation is in progress.
    pub(super) fn stays_up(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing") && self.job == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_by_a_person() {
        let down = RawState {
            active: "inactive".into(),
            sub: "dead".into(),
            load: LoadState::Loaded,
            inactive_exit: 77,
            active_exit: 90,
            job: 0,
            result: "success".into(),
            main_pid: 0,
            main_code: 2,
            main_exit: 95,
        };
        let with = |change: fn(&mut RawState)| {
            let mut raw = down.clone();
            change(&mut raw);
            raw
        };
        let table = [
            ("systemctl stop", down.clone(), None, true),
            (
                "stopped while the gate waited",
                with(|r| r.main_code = 0),
                None,
                true,
            ),
            ("stopped by the agent", down.clone(), Some(77), false),
            (
                "the agent stopped an earlier activation",
                down.clone(),
                Some(5),
                true,
            ),
            (
                "never started in this boot",
                with(|r| r.inactive_exit = 0),
                None,
                false,
            ),
            ("exited by itself with 0", with(|r| r.main_code = 1), None, false),
            (
                "c10b: sent SIGTERM by earlyoom or by hand",
                with(|r| (r.main_exit, r.active_exit) = (90, 91)),
                None,
                false,
            ),
            (
                "stopped before it was ready, after an activation that was",
                with(|r| (r.active_exit, r.inactive_exit) = (60, 77)),
                None,
                true,
            ),
            (
                "stopped while the gate waited, after an activation whose process exited",
                with(|r| (r.main_exit, r.active_exit, r.inactive_exit) = (60, 61, 77)),
                None,
                true,
            ),
            (
                "killed",
                with(|r| {
                    r.active = "failed".into();
                    r.result = "signal".into();
                }),
                None,
                false,
            ),
            ("up", with(|r| r.active = "active".into()), None, false),
            (
                "masked",
                with(|r| {
                    r.load = LoadState::Masked;
                    r.inactive_exit = 0;
                }),
                None,
                true,
            ),
            (
                "masked, stopped by the agent",
                with(|r| r.load = LoadState::Masked),
                Some(77),
                true,
            ),
        ];
        for (name, raw, stopped, held) in table {
            assert_eq!(raw.state(stopped, false).held, held, "{name}");
        }
    }
}
