//! Logs rejected connections once per address and minute, so that they cannot fill the journal.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::adapters::tls::one_line;

const EVERY: Duration = Duration::from_mins(1);
const REMEMBERED: usize = 1024;

/// Remembers when each address was last logged.
#[derive(Default)]
pub(super) struct RejectionLog(Mutex<HashMap<Option<IpAddr>, Instant>>);

impl RejectionLog {
    /// Logs one line about this address, unless it logged one in the last minute. `None` is the host itself
    /// (a Unix socket).
    pub(super) fn report(&self, address: Option<IpAddr>, what: &str) {
        if self.is_due(address, Instant::now()) {
            let what = one_line(what);
            match address {
                Some(peer) => {
                    warn!(etcd_agent.peer = %peer, "refused {peer}: {what} (further ones in the next minute are not shown)");
                }
                None => {
                    warn!("refused a local client: {what} (further ones in the next minute are not shown)");
                }
            }
        }
    }

    fn is_due(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.retain(|_, at| now.duration_since(*at) < EVERY);
            if seen.len() >= REMEMBERED {
                return false;
            }
        }
        match seen.get(&address) {
            Some(at) if now.duration_since(*at) < EVERY => false,
            _ => {
                seen.insert(address, now);
                true
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_address_and_minute_and_a_bounded_memory() {
        let rejection_log = RejectionLog::default();
        let now = Instant::now();
        let a = Some(IpAddr::from([10, 0, 0, 1]));
        assert!(rejection_log.is_due(a, now));
        assert!(!rejection_log.is_due(a, now + Duration::from_secs(59)));
        assert!(rejection_log.is_due(None, now));
        assert!(rejection_log.is_due(a, now + Duration::from_mins(1)));
        for n in 0..5000_u32 {
            rejection_log.is_due(Some(IpAddr::from(n.to_be_bytes())), now);
        }
        assert!(rejection_log.0.lock().unwrap().len() <= REMEMBERED);
    }
}
