//! Settings and times that alert rules need next to the state.

use std::time::Duration;

use prometheus_client::metrics::MetricType;

use super::encode::{Metrics, Value, seconds};
use crate::model::Vitals;

pub(super) fn vitals(out: &mut Metrics, vitals: &Vitals) {
    if let Some(at) = vitals.looked_at {
        let help = "When the agent last looked at systemd, etcd and the other agents.";
        out.head("etcd_agent_last_loop_timestamp_seconds", MetricType::Gauge, help);
        out.sample(&[], seconds(at.0));
    }
    if let Some(interval) = vitals.backup_interval {
        let help = "The interval between full backups (backup.interval).";
        out.head("etcd_agent_backup_interval_seconds", MetricType::Gauge, help);
        out.sample(&[], Value::Seconds(interval.as_secs_f64()));
    }
    if let Some(bytes) = vitals.etcd_quota_bytes {
        out.one(
            "etcd_agent_etcd_quota_bytes",
            "The quota of the backend database on this node.",
            bytes,
        );
    }
    if let Some(at) = vitals.etcd_certificate_not_after {
        out.head(
            "etcd_agent_etcd_certificate_expiry_timestamp_seconds",
            MetricType::Gauge,
            "When the first certificate of etcd on this node expires, or one that it depends on.",
        );
        out.sample(&[], seconds(at.0));
    }
    if !vitals.clocks.is_empty() {
        out.head(
            "etcd_agent_peer_clock_ahead_seconds",
            MetricType::Gauge,
            "By how much the peer's clock is ahead of this node's, as of its last answer; negative if it is behind.",
        );
        for (peer, ahead) in &vitals.clocks {
            let apart = Duration::from_millis(ahead.unsigned_abs()).as_secs_f64();
            let sign = if *ahead < 0 { -1.0 } else { 1.0 };
            out.sample(&[("peer", peer.as_str())], Value::Seconds(sign * apart));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{NodeName, UnixMs};
    use crate::telemetry::metrics::encode::Format;

    #[test]
    fn what_is_known_is_exposed_and_nothing_else() {
        let mut out = Metrics::default();
        vitals(&mut out, &Vitals::default());
        assert!(!out.encoded(Format::Text).contains("etcd_agent_"));
        let mut out = Metrics::default();
        let name = |text: &str| NodeName::new(text).unwrap();
        let known = Vitals {
            looked_at: Some(UnixMs(1_700_000_000_500)),
            etcd_quota_bytes: Some(2_147_483_648),
            backup_interval: Some(Duration::from_mins(15)),
            etcd_certificate_not_after: Some(UnixMs(1_800_000_000_000)),
            clocks: BTreeMap::from([(name("n2"), -1_500), (name("n3"), 20)]),
        };
        vitals(&mut out, &known);
        let text = out.encoded(Format::Text);
        for line in [
            "etcd_agent_last_loop_timestamp_seconds 1700000000.5",
            "etcd_agent_backup_interval_seconds 900.0",
            "etcd_agent_etcd_quota_bytes 2147483648",
            "etcd_agent_etcd_certificate_expiry_timestamp_seconds 1800000000.0",
            "etcd_agent_peer_clock_ahead_seconds{peer=\"n2\"} -1.5",
            "etcd_agent_peer_clock_ahead_seconds{peer=\"n3\"} 0.02",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in {text}");
        }
    }
}
