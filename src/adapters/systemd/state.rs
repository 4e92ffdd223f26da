//! The state of `etcd.service`, and whether a person holds it: pure.

use crate::model::{ActiveState, UnitState};

/// As D-Bus gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RawState {
    pub(super) active: String,
    pub(super) sub: String,
    pub(super) load: String,
    /// When it last left `inactive` in this boot, in microseconds; 0 when it never did. It names one activation.
    pub(super) inactive_exit: u64,
    pub(super) result: String,
    pub(super) main_pid: u32,
    /// `ExecMainCode`: `CLD_EXITED` (1) and so on of `waitid(2)`; 0 when the main process has not ended.
    pub(super) main_code: i32,
}

const CLD_EXITED: i32 = 1;

impl RawState {
    /// `stopped` names the activation that the agent itself asked to stop.
    ///
    /// Held is what was up in this boot and is down without a failure, when not the agent asked for it and the
    /// process did not leave by itself: an etcd that was removed from its cluster exits with 0.
    pub(super) fn state(&self, stopped: Option<u64>) -> UnitState {
        let active = match self.active.as_str() {
            "active" => ActiveState::Active,
            "reloading" | "refreshing" => ActiveState::Reloading,
            "failed" => ActiveState::Failed,
            "activating" => ActiveState::Activating,
            "deactivating" => ActiveState::Deactivating,
            "maintenance" => ActiveState::Maintenance,
            _ => ActiveState::Inactive,
        };
        let stopped_by_a_person = active == ActiveState::Inactive
            && self.result == "success"
            && self.inactive_exit != 0
            && self.main_code != CLD_EXITED
            && stopped != Some(self.inactive_exit);
        UnitState {
            active,
            sub: self.sub.clone(),
            result: self.result.clone(),
            main_pid: self.main_pid,
            load: self.load.clone(),
            held: stopped_by_a_person || self.load == "masked",
        }
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
            load: "loaded".into(),
            inactive_exit: 77,
            result: "success".into(),
            main_pid: 0,
            main_code: 2,
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
            ("left by itself with 0", with(|r| r.main_code = 1), None, false),
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
                    r.load = "masked".into();
                    r.inactive_exit = 0;
                }),
                None,
                true,
            ),
            (
                "masked, stopped by the agent",
                with(|r| r.load = "masked".into()),
                Some(77),
                true,
            ),
        ];
        for (name, raw, stopped, held) in table {
            assert_eq!(raw.state(stopped).held, held, "{name}");
        }
    }
}
