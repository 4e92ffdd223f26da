//! Alarms of etcd. While an alarm is raised, etcd refuses writes until its cause is gone and somebody has disarmed it:
//! the agents themselves for NOSPACE, unless `space.recover` is off. etcd keeps alarms in the database, so a backup
//! taken meanwhile contains them too.

use super::context::Context;
use crate::model::{EtcdStatus, ReasonCode};

/// The remedy, in one line.
const HELP: &str = "free room (`etcdctl compact REVISION` with the revision of `etcd-agent status`, then `etcd-agent \
                    defrag --rolling`; or a larger space.quota), then `etcd-agent alarm disarm`";

/// Says that the etcd of this node has an alarm.
pub(super) fn report(cx: &mut Context<'_>) {
    let recovers = cx.spec.space.recover;
    if let Some(text) = cx.obs.me.etcd.known().and_then(|etcd| raised(etcd, recovers)) {
        cx.because(ReasonCode::EtcdAlarm, text);
    }
}

/// What an alarm of this etcd means; `None` without one. `recovers` is true if the agents free etcd from
/// NOSPACE.
pub(super) fn raised(etcd: &EtcdStatus, recovers: bool) -> Option<String> {
    let alarms: Vec<&str> = etcd.other_alarms().collect();
    match alarms.first()? {
        alarm if alarm.starts_with("NOSPACE") => {
            let help = match (etcd.in_quarantine(), recovers) {
                (true, _) => "in quarantine the agents do not free it, `etcd-agent move --cancel` first",
                (false, true) => "the agents free it",
                (false, false) => HELP,
            };
            Some(format!(
                "etcd refuses writes, its database has reached the quota (alarm NOSPACE): {help}"
            ))
        }
        _ => Some(format!(
            "etcd refuses to serve as usual (alarm {}): `etcd-agent alarm list`",
            alarms.join(", ")
        )),
    }
}
