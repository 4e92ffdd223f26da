//! Reports how the settings of the running etcd differ from what is configured. It never leads to a restart: the
//! settings may be a person's, and etcd serves with them.

use super::context::Context;
use crate::model::{Fact, ReasonCode};

/// Reports each setting that differs.
pub(super) fn report(cx: &mut Context<'_>) {
    match &cx.obs.drift.found {
        Fact::Known(lines) => {
            for line in lines {
                cx.because(ReasonCode::SettingsDrift, line.clone());
            }
        }
        Fact::Unreachable(why) => {
            let text = format!("whether etcd runs with the settings that are configured is not known: {why}");
            cx.because(ReasonCode::SettingsDrift, text);
        }
        Fact::Absent => {}
    }
}
