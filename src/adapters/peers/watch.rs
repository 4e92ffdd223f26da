//! Follows one peer's status by long poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::board::Board;
use super::connection::{Connection, Target, api_error};
use super::silence;
use crate::adapters::clock::SystemClock;
use crate::model::{Backoff, NodeStatus};
use crate::ports::Clock;

/// How long the peer may delay its answer. Meanwhile it sends spaces.
const WAIT: Duration = Duration::from_secs(25);
/// Extra time for the round trip.
const GRACE: Duration = Duration::from_secs(2);
/// The pause between two polls. It prevents a broken peer, or one whose status changes often, from keeping
/// this node busy.
const PAUSE: Duration = Duration::from_millis(10);

/// `GET /v1/status`.
#[derive(Debug, Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u64,
    pub(super) status: NodeStatus,
}

/// Follows a peer forever.
pub(super) async fn watch(target: Arc<Target>, board: Arc<Board>) {
    let mut connection: Option<Connection> = None;
    let mut after: Option<u64> = None;
    let mut attempts = Attempts::default();
    loop {
        let kept = connection
            .take()
            .filter(|connection| connection.is_usable(target.tls.as_ref()));
        let reused = kept.is_some();
        if !reused {
            // The peer may have restarted, and then counts its versions from the beginning again.
            after = None;
        }
        match poll(&target, kept, after).await {
            Ok((open, answer)) => {
                attempts = Attempts::default();
                connection = Some(open);
                let news = after != Some(answer.version);
                after = Some(answer.version);
                board.received(&target.node, answer.status, SystemClock.now(), news);
                sleep(PAUSE).await;
            }
            // The server closes old or idle connections. Do not report that if the next connection works.
            Err(Broken::Connection(_)) if reused => after = None,
            Err(Broken::Connection(why) | Broken::Peer(why)) => {
                board.lost(&target.node, why);
                sleep(attempts.pause(Instant::now())).await;
            }
        }
    }
}

/// Whether the connection failed or the peer behind it.
enum Broken {
    Connection(String),
    Peer(String),
}

async fn poll(
    target: &Target,
    kept: Option<Connection>,
    after: Option<u64>,
) -> Result<(Connection, Versioned), Broken> {
    let describe = |why: &str| format!("{}: {why}", target.describe());
    let mut connection = match kept {
        Some(connection) => connection,
        None => target
            .connect()
            .await
            .map_err(|failure| Broken::Connection(describe(&failure.why)))?,
    };
    let path = match after {
        Some(version) => format!("/v1/status?after={version}&wait_ms={}", WAIT.as_millis()),
        None => "/v1/status".to_owned(),
    };
    let request = target
        .request(Method::GET, &path, Vec::new())
        .map_err(|failure| Broken::Peer(describe(&failure.why)))?;
    let deadline = if after.is_some() { WAIT + GRACE } else { GRACE };
    let received = Notify::new();
    let exchange = timeout(deadline, connection.exchange_notifying(request, &received));
    let answered = tokio::select! {
        answered = exchange => answered,
        why = silence::noticed(&target.address, target.port, &received) => return Err(Broken::Peer(describe(&why))),
    };
    let (status, body) = answered
        .map_err(|_| Broken::Peer(describe(&format!("no answer within {} s", deadline.as_secs()))))?
        .map_err(|failure| Broken::Connection(describe(&failure.why)))?;
    if !status.is_success() {
        return Err(Broken::Peer(describe(&api_error(status, &body))));
    }
    let mut answer: Versioned = serde_json::from_slice(&body)
        .map_err(|error| Broken::Peer(describe(&format!("its status is not understood: {error}"))))?;
    answer.status = target.expected(answer.status).map_err(Broken::Peer)?;
    Ok((connection, answer))
}

/// The pauses between attempts to reach a peer: short for ten seconds, because hosts often start together,
/// then longer.
struct Attempts {
    since: Instant,
    failures: u32,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            failures: 0,
        }
    }
}

impl Attempts {
    fn pause(&mut self, now: Instant) -> Duration {
        let longest = if now.duration_since(self.since) < Duration::from_secs(10) {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(2)
        };
        self.failures = self.failures.saturating_add(1);
        Backoff::new(Duration::from_millis(50), longest).jittered(self.failures, rand::random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_started_together_ask_each_other_often_and_later_less() {
        let mut attempts = Attempts::default();
        let begun = attempts.since;
        for _ in 0..20 {
            assert!(attempts.pause(begun) <= Duration::from_millis(200));
        }
        let later = begun + Duration::from_secs(10);
        let last = attempts.pause(later);
        assert!(last >= Duration::from_millis(1500) && last <= Duration::from_secs(2));
    }
}
