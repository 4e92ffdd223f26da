//! Waits for the agent to carry out a request, with progress and a deadline.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::client::{CallError, Client};
use super::exit::{Exit, Failure};
use super::health;
use super::progress::Progress;
use crate::model::{AdminStatus, Epoch, OperatorRequest, RequestState, RequestView};

/// The polling interval.
const EVERY: Duration = Duration::from_millis(300);
/// How long to wait for the remaining members once a majority serves.
const STRAGGLERS: Duration = Duration::from_secs(30);

/// `--timeout`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Timeout {
    /// Give up waiting after this long, e.g. 90s or 10m; the work continues
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10m")]
    pub timeout: Duration,
}

/// `--timeout` of commands that only read.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct ListTimeout {
    /// Give up waiting for the store after this long, e.g. 90s or 10m
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10m")]
    pub timeout: Duration,
}

/// Parses a time span, within the range of the clock.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_hours(24 * 366);
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if span > LONGEST {
        return Err("expected at most a year".to_owned());
    }
    Ok(span)
}

/// Ends at SIGINT or SIGTERM, which from now on no longer end the process.
pub(super) fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let listen =
        |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// A deadline, and what to say when it has passed.
#[derive(Debug)]
pub(super) struct Deadline {
    until: Instant,
    limit: Duration,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            until: Instant::now() + limit,
            limit,
        }
    }

    /// The time that is left, for one more call: never less than a second.
    pub(super) fn left(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        left.max(Duration::from_secs(1))
    }

    /// Sleeps until the next poll, or fails when the deadline has passed.
    pub(super) async fn next(&self, what: &str, progress: &Progress) -> Result<(), Failure> {
        if Instant::now() >= self.until {
            let limit = humantime::format_duration(self.limit);
            let last = progress.last();
            let text = format!(
                "{what}: not done within {limit}, it goes on; last seen: {last}; see `etcd-agent status`"
            );
            return Err(Failure::new(Exit::TimedOut, text));
        }
        tokio::time::sleep(EVERY).await;
        Ok(())
    }
}

/// Runs until done or until Ctrl-C; an interrupt reports what happens to the work that has begun.
pub(super) async fn or_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
    fate: &str,
) -> Result<T, Failure> {
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::TimedOut, format!("interrupted: {fate}"))),
    }
}

/// Submits a request.
pub(super) async fn submit(client: &Client, request: &OperatorRequest) -> Result<RequestView, Failure> {
    Ok(client.post("/v1/requests", request).await?)
}

/// Waits until a request is done, and returns its result.
pub(super) async fn done(
    client: &Client,
    view: RequestView,
    deadline: &Deadline,
    progress: &mut Progress,
) -> Result<RequestView, Failure> {
    let mut view = view;
    loop {
        progress.say(&view.message);
        match view.state {
            RequestState::Done => return Ok(view),
            RequestState::Failed => return Err(Failure::failed(&view.message)),
            RequestState::Pending => {}
        }
        deadline.next("the request", progress).await?;
        match look(client, view.id).await? {
            Look::Still(new) => view = new,
            Look::Silent(text) => progress.say(&text),
            Look::Forgotten => {
                return Err(Failure::failed(
                    "the agent was restarted meanwhile and has forgotten the request: see `etcd-agent status`",
                ));
            }
        }
    }
}

/// The state of a request at one poll.
enum Look {
    Still(RequestView),
    /// The agent does not answer just now.
    Silent(String),
    /// The agent has been restarted: it knows no such request.
    Forgotten,
}

async fn look(client: &Client, id: u64) -> Result<Look, Failure> {
    match client.get(&format!("/v1/requests/{id}")).await {
        Ok(view) => Ok(Look::Still(view)),
        Err(CallError::Answered { status: 404, .. }) => Ok(Look::Forgotten),
        Err(
            CallError::Unreachable(text)
            | CallError::TimedOut(text)
            | CallError::Answered { status: 503, text },
        ) => Ok(Look::Silent(text)),
        Err(error) => Err(error.into()),
    }
}

/// The agent's status, or why there is none just now.
pub(super) async fn status(client: &Client) -> Result<Result<AdminStatus, String>, Failure> {
    match client.get("/v1/status").await {
        Ok(status) => Ok(Ok(status)),
        Err(
            CallError::Unreachable(text)
            | CallError::TimedOut(text)
            | CallError::Answered { status: 503, text },
        ) => Ok(Err(text)),
        Err(error) => Err(error.into()),
    }
}

/// Waits until an epoch after `before` serves with a majority of `members`, then briefly for the remaining
/// ones. A request that the agent reports as failed ends the wait. One that the agent has forgotten does not:
/// the epoch shows the result.
pub(super) async fn epoch_after(
    client: &Client,
    view: RequestView,
    before: Epoch,
    members: usize,
    deadline: &Deadline,
    progress: &mut Progress,
) -> Result<AdminStatus, Failure> {
    let mut majority_at: Option<Instant> = None;
    let mut asked = Some(view.id);
    progress.say(&view.message);
    loop {
        if let Some(id) = asked {
            match look(client, id).await? {
                Look::Still(view) if view.state == RequestState::Failed => {
                    return Err(Failure::failed(view.message));
                }
                Look::Still(view) => {
                    if view.state == RequestState::Done {
                        asked = None;
                    }
                    progress.say(&view.message);
                }
                Look::Silent(text) => progress.say(&text),
                Look::Forgotten => asked = None,
            }
        }
        match status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => {
                let serving = health::serving_after(&status, before);
                if serving > members / 2 {
                    let since = *majority_at.get_or_insert_with(Instant::now);
                    if serving >= members || since.elapsed() > STRAGGLERS {
                        return Ok(status);
                    }
                    progress.say(&format!("{serving} of {members} members serve"));
                } else {
                    majority_at = None;
                    if asked.is_none() {
                        progress.say(&status.decision.text);
                    }
                }
            }
        }
        deadline.next("the new epoch", progress).await?;
    }
}
