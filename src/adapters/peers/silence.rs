//! Notices that a peer's host is dead while a long poll waits for an answer. The peer sends something every 750 ms. If
//! nothing comes, its host is asked for another connection: the kernel of a living host accepts it even if the agent
//! is busy, and a lost packet delays only one of the two.

use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::adapters::dial::{DialError, lookup, reach};

/// After this time without anything from the peer, its host is asked.
const LATE: Duration = Duration::from_secs(1);
/// After this time the agent counts as silent, even if its host accepts connections.
const QUIET: Duration = Duration::from_secs(12);

/// Returns once the peer at this address is silent, and says why. `received` is notified whenever something arrives
/// from it.
pub(super) async fn noticed(address: &str, port: u16, received: &Notify) -> String {
    noticed_within(QUIET, address, port, received).await
}

async fn noticed_within(quiet: Duration, address: &str, port: u16, received: &Notify) -> String {
    let (mut last, mut late) = (Instant::now(), LATE);
    loop {
        let left = quiet.saturating_sub(last.elapsed());
        if timeout(late.min(left), received.notified()).await.is_ok() {
            (last, late) = (Instant::now(), LATE);
            continue;
        }
        if late >= left {
            return format!("no answer within {} s", quiet.as_secs());
        }
        if let Some(why) = unreachable(address, port).await {
            return why;
        }
        late *= 2;
    }
}

/// Why no connection to this address is accepted. `None` if one is, or if this host could not ask.
async fn unreachable(address: &str, port: u16) -> Option<String> {
    let addresses = lookup(address, port).await.ok()?;
    match reach(&addresses).await {
        Err(DialError::Silent(error)) => Some(error.to_string()),
        Ok(_) | Err(DialError::Unasked(_)) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::adapters::dial::tests::black_hole;

    #[tokio::test]
    async fn a_dead_host_is_noticed_and_a_busy_agent_is_not_taken_for_one() {
        let received = Notify::new();
        let (hole, _kept) = black_hole().await;
        let dead = noticed("127.0.0.1", hole.port(), &received);
        let why = timeout(QUIET, dead).await.unwrap();
        assert!(why.contains("no connection within"), "{why}");
        let busy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = busy.local_addr().unwrap().port();
        let why = timeout(4 * LATE, noticed("127.0.0.1", port, &received)).await;
        assert!(why.is_err(), "its host accepts connections: {why:?}");
        drop(busy);
        let why = timeout(QUIET, noticed("127.0.0.1", port, &received))
            .await
            .unwrap();
        assert!(why.contains("refused"), "{why}");
    }

    #[tokio::test]
    async fn an_agent_that_sends_nothing_for_long_counts_as_silent() {
        let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = frozen.local_addr().unwrap().port();
        let quiet = Duration::from_secs(2);
        let why = noticed_within(quiet, "127.0.0.1", port, &Notify::new()).await;
        assert_eq!(why, "no answer within 2 s");
    }
}
