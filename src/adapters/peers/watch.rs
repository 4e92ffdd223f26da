//! Following one peer's status by long poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::board::Board;
use super::connection::{Connection, Target, api_error};
use crate::adapters::clock::SystemClock;
use crate::model::NodeStatus;
use crate::ports::Clock;

/// How long the peer may hold an answer back.
const WAIT: Duration = Duration::from_secs(10);
/// On top of that, for the way there and back.
const GRACE: Duration = Duration::from_secs(2);
/// Between two polls, so that a peer with much news, or a broken one, cannot keep this node busy.
const PAUSE: Duration = Duration::from_millis(10);

/// `GET /v1/status`.
#[derive(Debug, Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u64,
    pub(super) status: NodeStatus,
}

/// Follows a peer for ever.
pub(super) async fn watch(target: Arc<Target>, board: Arc<Board>) {
    let mut connection: Option<Connection> = None;
    let mut after: Option<u64> = None;
    let mut backoff = Backoff::default();
    loop {
        let kept = connection
            .take()
            .filter(|connection| connection.is_usable(target.tls.as_ref()));
        let reused = kept.is_some();
        if !reused {
            // A peer that was started anew counts from the beginning.
            after = None;
        }
        match poll(&target, kept, after).await {
            Ok((open, answer)) => {
                backoff = Backoff::default();
                connection = Some(open);
                let news = after != Some(answer.version);
                after = Some(answer.version);
                board.heard(&target.node, answer.status, SystemClock.now(), news);
                sleep(PAUSE).await;
            }
            // The server closes a connection that is old or idle: not a word about that if the next one works.
            Err(Broken::Connection(_)) if reused => after = None,
            Err(Broken::Connection(why) | Broken::Peer(why)) => {
                board.lost(&target.node, why);
                sleep(backoff.next(Instant::now())).await;
            }
        }
    }
}

/// What went wrong: with the connection, or with the peer behind it.
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
    let (status, body) = timeout(deadline, connection.exchange(request))
        .await
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

/// Time to the next try: often for ten seconds, as hosts are started together, then less.
struct Backoff {
    since: Instant,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            next: Duration::from_millis(50),
        }
    }
}

impl Backoff {
    fn next(&mut self, now: Instant) -> Duration {
        let most = if now.duration_since(self.since) < Duration::from_secs(10) {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(2)
        };
        let base = self.next.min(most);
        self.next = (base * 2).min(most);
        // A quarter up or down, so that the nodes do not keep step.
        base * 3 / 4 + base.mul_f64(f64::from(rand::random::<u8>()) / 510.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_started_together_ask_each_other_often_and_later_less() {
        let mut backoff = Backoff::default();
        let begun = backoff.since;
        for _ in 0..20 {
            assert!(backoff.next(begun) <= Duration::from_millis(250));
        }
        let later = begun + Duration::from_secs(10);
        let last = (0..20).map(|_| backoff.next(later)).last();
        assert!(last >= Some(Duration::from_millis(1500)) && last <= Some(Duration::from_millis(2500)));
    }
}
