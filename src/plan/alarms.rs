//! Alarms of etcd. While an alarm is raised, etcd refuses writes until a person has freed space and disarmed
//! it. etcd keeps alarms in the database, so a backup taken meanwhile contains them too.

use super::context::Context;
use crate::model::{EtcdStatus, ReasonCode};

/// The remedy, in one line.
const HELP: &str = "free room (`etcdctl compact`, `etcdctl defrag`, a larger etcd.settings.quota-backend-bytes), then `etcd-agent \
                    alarm disarm`";

/// Says that the etcd of this node has an alarm.
pub(super) fn report(cx: &mut Context<'_>) {
    if let Some(text) = cx.obs.me.etcd.known().and_then(raised) {
        cx.because(ReasonCode::EtcdAlarm, text);
    }
}

/// What an alarm of this etcd means; `None` without one.
pub(super) fn raised(etcd: &EtcdStatus) -> Option<String> {
    let alarms: Vec<&str> = etcd.alarms().collect();
    match alarms.first()? {
        alarm if alarm.starts_with("NOSPACE") => Some(format!(
            "etcd refuses writes, its database has reached the quota (alarm NOSPACE): {HELP}"
        )),
        _ => Some(format!(
            "etcd refuses to serve as usual (alarm {}): `etcd-agent alarm list`",
            alarms.join(", ")
        )),
    }
}
