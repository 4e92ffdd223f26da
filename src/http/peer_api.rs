//! The peer API, for other agents and for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::caller::{Access, Caller};
use super::limits::Limits;
use super::reply::{Refused, Reply, with_fallbacks};
use super::scrape;
use super::strict::Strict;
use crate::model::{
    Accept, AcceptReply, Enquire, EnquireAnswer, Learn, NodeStatus, OperatorRequest, Prepare, PrepareReply,
    RequestView,
};
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

/// How long an answer waits for the first observation of an agent that has just started. It is shorter than a
/// peer's timeout.
const FIRST_LOOK: Duration = Duration::from_millis(1500);
/// How often a long poll that waits sends a space. The client notices a dead host when none comes.
const BEAT: Duration = Duration::from_millis(750);

struct Api {
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    access: Access,
    writes: Semaphore,
    poll: Duration,
    shutdown: CancellationToken,
}

type Shared = State<Arc<Api>>;

pub(super) fn router(
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    access: Access,
    limits: Limits,
    shutdown: CancellationToken,
) -> Router {
    let api = Arc::new(Api {
        handle,
        counters,
        access,
        writes: Semaphore::new(limits.writes),
        poll: limits.poll,
        shutdown,
    });
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/genesis/enquire", post(enquire))
        .route("/v1/genesis/prepare", post(prepare))
        .route("/v1/genesis/accept", post(accept))
        .route("/v1/genesis/learn", post(learn))
        .route("/v1/requests", post(submit))
        .route("/v1/requests/{id}", get(request))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(api);
    with_fallbacks(router)
}

/// `GET /v1/status`.
#[derive(Debug, Serialize)]
struct Versioned {
    /// Grows with each material change. The client sends it as `after` in its next request.
    version: u64,
    /// The status.
    status: NodeStatus,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Poll {
    after: Option<u64>,
    wait_ms: Option<u64>,
    /// The status from a look that begins now.
    #[serde(default)]
    fresh: bool,
}

async fn status(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Poll>, QueryRejection>,
) -> Result<Response, Refused> {
    api.access.is_a_node(&caller)?;
    let Query(poll) = query.map_err(|error| Refused::bad(error.body_text()))?;
    if poll.fresh {
        let version = api.handle.status_version();
        let status = api.handle.fresh_status().await?;
        return Ok(Json(Versioned { version, status }).into_response());
    }
    if let (Some(after), Some(wait_ms)) = (poll.after, poll.wait_ms)
        && api.handle.status_version() <= after
    {
        let wait = Duration::from_millis(wait_ms).min(api.poll);
        return Ok(status_after(api, after, Instant::now() + wait));
    }
    Ok(Json(api.versioned().await).into_response())
}

/// The status once it is newer than `after`, at `end`, or when the server stops. A timeout is an answer too:
/// nothing has changed. Spaces come before it, which JSON permits (RFC 8259, section 2).
fn status_after(api: Arc<Api>, after: u64, end: Instant) -> Response {
    let body = stream::unfold(Some(api), move |waiting| async move {
        let api = waiting?;
        let beat = (Instant::now() + BEAT).min(end);
        let change = timeout_at(beat, api.handle.status_after(after));
        let waited = api.shutdown.run_until_cancelled(change).await;
        if matches!(waited, Some(Err(_))) && beat < end {
            return Some((Ok(Bytes::from_static(b" ")), Some(api)));
        }
        Some((serde_json::to_vec(&api.versioned().await).map(Bytes::from), None))
    });
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, Body::from_stream(body)).into_response()
}

impl Api {
    async fn versioned(&self) -> Versioned {
        // An agent that has just started knows nothing about its etcd yet. Its status would look as if etcd
        // were down.
        let _ = timeout(FIRST_LOOK, self.handle.first_look()).await;
        // Read the version first. If the status is newer than its version, the client asks for it once more
        // and never misses it.
        let version = self.handle.status_version();
        let status = self.handle.status();
        Versioned { version, status }
    }

    /// Limits the number of concurrent calls that write to disk. Calls beyond the limit fail with a request
    /// to try again.
    fn write(&self) -> Result<SemaphorePermit<'_>, Refused> {
        self.writes
            .try_acquire()
            .map_err(|_| Refused::unavailable("too many concurrent requests, try again"))
    }
}

async fn enquire(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Strict(message): Strict<Enquire>,
) -> Reply<EnquireAnswer> {
    api.access.speaks_for(&caller, &message.from)?;
    let _permit = api.write()?;
    Ok(Json(api.handle.enquire(message).await?))
}

async fn prepare(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Strict(message): Strict<Prepare>,
) -> Reply<PrepareReply> {
    api.access.speaks_for(&caller, &message.ballot.node)?;
    let _permit = api.write()?;
    Ok(Json(api.handle.prepare(message).await?))
}

async fn accept(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Strict(message): Strict<Accept>,
) -> Reply<AcceptReply> {
    api.access.speaks_for(&caller, &message.ballot.node)?;
    let _permit = api.write()?;
    Ok(Json(api.handle.accept(message).await?))
}

async fn learn(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Strict(message): Strict<Learn>,
) -> Reply<()> {
    // Any node may forward a chosen genesis.
    api.access.is_a_node(&caller)?;
    let _permit = api.write()?;
    Ok(Json(api.handle.learn(message).await?))
}

/// Takes over an operator's request that another node received and only this node can execute. Another node
/// may not submit requests that open an epoch, remove something or verify a backup: the node that the
/// operator asked must execute those.
async fn submit(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Strict(wanted): Strict<OperatorRequest>,
) -> Reply<RequestView> {
    api.access.is_a_node(&caller)?;
    let _permit = api.write()?;
    match wanted {
        OperatorRequest::Backup
        | OperatorRequest::BackupAs { .. }
        | OperatorRequest::Increment
        | OperatorRequest::MoveLeader { .. } => Ok(Json(api.handle.take_over(wanted)?)),
        OperatorRequest::Restore { .. }
        | OperatorRequest::Bootstrap { .. }
        | OperatorRequest::ConfirmEpoch { .. }
        | OperatorRequest::Prune
        | OperatorRequest::RebootLock { .. }
        | OperatorRequest::Verify { .. } => Err(Refused::forbidden("this request is not for another node")),
    }
}

async fn request(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Path(id): Path<u64>,
) -> Reply<RequestView> {
    api.access.is_a_node(&caller)?;
    let view = api.handle.request(id);
    view.map(Json).ok_or_else(|| {
        Refused::new(
            StatusCode::NOT_FOUND,
            format!("there is no request {id} in this run of the agent"),
        )
    })
}

async fn healthz(State(api): Shared) -> Result<&'static str, Refused> {
    if api.handle.is_live() {
        Ok("ok\n")
    } else {
        Err(Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the agent's loop makes no progress",
        ))
    }
}

async fn readyz(State(api): Shared) -> Result<&'static str, Refused> {
    if api.handle.is_ready() {
        Ok("ok\n")
    } else {
        Err(Refused::unavailable(api.handle.status().text))
    }
}

async fn metrics(State(api): Shared, headers: HeaderMap) -> Response {
    scrape::answer(api.handle.as_ref(), &api.counters, &headers).await
}
