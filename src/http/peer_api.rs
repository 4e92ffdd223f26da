//! The peer API: what other agents and Prometheus ask.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::caller::{Access, Caller};
use super::limits::Limits;
use super::reply::{self, Refused, Reply, with_fallbacks};
use super::strict::Strict;
use crate::model::{
    Accept, AcceptReply, Enquire, EnquireAnswer, Learn, NodeStatus, OperatorRequest, Prepare, PrepareReply,
    RequestView,
};
use crate::ports::AgentHandle;
use crate::telemetry::{Counters, exposition};

/// How long an answer waits for an agent that has just started; less than a peer waits for it.
const FIRST_LOOK: Duration = Duration::from_millis(1500);

struct Api {
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    access: Access,
    writes: Semaphore,
    poll: Duration,
}

type Shared = State<Arc<Api>>;

pub(super) fn router(
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    access: Access,
    limits: Limits,
) -> Router {
    let api = Arc::new(Api {
        handle,
        counters,
        access,
        writes: Semaphore::new(limits.writes),
        poll: limits.poll,
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
    /// Grows with each material change; to be given as `after` next time.
    version: u64,
    /// The status.
    status: NodeStatus,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Poll {
    after: Option<u64>,
    wait_ms: Option<u64>,
}

async fn status(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Poll>, QueryRejection>,
) -> Reply<Versioned> {
    api.access.is_a_node(&caller)?;
    let Query(poll) = query.map_err(|error| Refused::bad(error.body_text()))?;
    if let (Some(after), Some(wait_ms)) = (poll.after, poll.wait_ms)
        && api.handle.status_version() <= after
    {
        let wait = Duration::from_millis(wait_ms).min(api.poll);
        // Running out of time is an answer too: nothing has changed.
        let _ = tokio::time::timeout(wait, api.handle.status_after(after)).await;
    }
    // An agent that has just started says nothing of its etcd yet, which looks like an etcd that is down.
    let _ = tokio::time::timeout(FIRST_LOOK, api.handle.first_look()).await;
    // The version is read first: a status newer than its version is asked for once more, never missed.
    let version = api.handle.status_version();
    let status = api.handle.status();
    Ok(Json(Versioned { version, status }))
}

impl Api {
    /// Calls that write to disk are bounded in number; others get an answer to retry.
    fn write(&self) -> Result<SemaphorePermit<'_>, Refused> {
        self.writes
            .try_acquire()
            .map_err(|_| Refused::unavailable("too many requests under way, try again"))
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
    // Any node may pass a chosen genesis on.
    api.access.is_a_node(&caller)?;
    let _permit = api.write()?;
    Ok(Json(api.handle.learn(message).await?))
}

/// What a person asked another node for, and only this one can do. What opens an epoch, removes or verifies is for the node
/// where it was asked.
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
        | OperatorRequest::Verify { .. } => Err(Refused::forbidden("this is not for another node to ask")),
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

async fn metrics(State(api): Shared) -> Response {
    reply::metrics(exposition(&api.handle.admin_status(), &api.counters))
}
