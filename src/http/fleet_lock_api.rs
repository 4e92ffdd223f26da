//! The FleetLock protocol over plain HTTP, for a client on the same host, for example Zincati:
//! <https://coreos.github.io/zincati/development/fleetlock/protocol/>. All groups
//! that are configured share the one lock of the cluster.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::reply::{Refused, with_fallbacks};
use super::strict::Strict;
use crate::model::{LockOwner, OperatorRequest, RequestState, SteadyMs};
use crate::ports::{AgentHandle, PortError};

/// How long `pre-reboot` waits for the lock. The client asks again later.
const WAIT: Duration = Duration::from_secs(15);
/// How long it waits for the agent's answer after that.
const ANSWER: Duration = Duration::from_secs(5);
/// How often the progress is checked.
const LOOK: Duration = Duration::from_millis(50);

/// What the handlers share.
#[derive(Clone)]
struct FleetLock {
    handle: Arc<dyn AgentHandle>,
    /// `reboot_lock.groups`.
    groups: Arc<[String]>,
}

type Shared = State<FleetLock>;

/// The body of each request. A later version of the protocol may have more fields.
#[derive(Debug, Serialize, Deserialize)]
struct FleetLockRequest {
    client_params: ClientParams,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ClientParams {
    id: String,
    group: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// An error in the protocol's form.
#[derive(Debug)]
struct FleetLockError {
    status: StatusCode,
    kind: &'static str,
    value: String,
}

impl IntoResponse for FleetLockError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body<'a> {
            kind: &'a str,
            value: &'a str,
        }
        let body = Json(Body {
            kind: self.kind,
            value: &self.value,
        });
        let mut response = (self.status, body).into_response();
        response
            .extensions_mut()
            .insert(Refused::new(self.status, self.value));
        response
    }
}

impl FleetLockError {
    fn new(status: StatusCode, kind: &'static str, value: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            value: value.into(),
        }
    }

    fn refused(why: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "lock_refused", why)
    }
}

impl From<PortError> for FleetLockError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Permanent(why) => Self::refused(why),
            error @ (PortError::Retryable(_) | PortError::OutcomeUnknown(_)) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "agent_unavailable",
                error.to_string(),
            ),
        }
    }
}

pub(super) fn router(handle: Arc<dyn AgentHandle>, groups: Vec<String>) -> Router {
    let groups = groups.into();
    let router = Router::new()
        .route("/v1/pre-reboot", post(pre_reboot))
        .route("/v1/steady-state", post(steady_state))
        .with_state(FleetLock { handle, groups });
    with_fallbacks(router)
}

/// Takes the lock for the client. It also succeeds if the client holds the lock already.
async fn pre_reboot(
    State(FleetLock { handle, groups }): Shared,
    headers: HeaderMap,
    body: Result<Strict<FleetLockRequest>, Refused>,
) -> Result<(), FleetLockError> {
    let owner = owner(&headers, body)?;
    permit_group(&owner, &groups)?;
    if handle.status().steering.directives.paused.is_some() {
        let why = "an operator ordered a pause: no host reboots by itself until `etcd-agent resume`";
        return Err(FleetLockError::new(StatusCode::CONFLICT, "paused", why));
    }
    let asked = OperatorRequest::RebootLock {
        owner,
        within_ms: u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX),
        asked: SteadyMs::default(),
    };
    let id = handle.submit(asked)?.id;
    let until = Instant::now() + WAIT + ANSWER;
    loop {
        match handle.request(id) {
            Some(view) if view.state == RequestState::Done => return Ok(()),
            Some(view) if view.state == RequestState::Failed => {
                return Err(FleetLockError::refused(view.message));
            }
            Some(_) if Instant::now() < until => sleep(LOOK).await,
            Some(_) | None => {
                let why = "the agent is busy or was reloaded meanwhile";
                return Err(FleetLockError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "agent_unavailable",
                    why,
                ));
            }
        }
    }
}

/// Releases the lock if the client holds it, also if its group is no longer configured: the lock never expires.
async fn steady_state(
    State(FleetLock { handle, .. }): Shared,
    headers: HeaderMap,
    body: Result<Strict<FleetLockRequest>, Refused>,
) -> Result<(), FleetLockError> {
    let owner = owner(&headers, body)?;
    handle.release_reboot_lock(Some(&owner))?;
    Ok(())
}

/// The client that a valid request names.
fn owner(
    headers: &HeaderMap,
    body: Result<Strict<FleetLockRequest>, Refused>,
) -> Result<LockOwner, FleetLockError> {
    let bad = |why: String| FleetLockError::new(StatusCode::BAD_REQUEST, "bad_request", why);
    if headers
        .get("fleet-lock-protocol")
        .is_none_or(|value| value != "true")
    {
        return Err(bad("expected the header `fleet-lock-protocol: true`".to_owned()));
    }
    let Strict(FleetLockRequest { client_params, .. }) =
        body.map_err(|refused| FleetLockError::new(refused.status, "bad_request", refused.text))?;
    let longest = LockOwner::LONGEST;
    let ClientParams { id, group, .. } = client_params;
    if id.is_empty() || id.len() > longest || id.chars().any(char::is_control) {
        return Err(bad(format!(
            "client_params.id is {id:?}, expected 1 to {longest} bytes of printable text"
        )));
    }
    if !LockOwner::is_group(&group) {
        return Err(bad(format!(
            "client_params.group is {group:?}, expected 1 to {longest} letters, digits, dots and hyphens"
        )));
    }
    Ok(LockOwner::FleetLock { id, group })
}

/// Refuses a client of a group that may not take the lock.
fn permit_group(owner: &LockOwner, groups: &[String]) -> Result<(), FleetLockError> {
    let LockOwner::FleetLock { group, .. } = owner else {
        return Ok(());
    };
    if groups.contains(group) {
        return Ok(());
    }
    let known: Vec<String> = groups.iter().map(|known| format!("{known:?}")).collect();
    let why = format!(
        "client_params.group is {group:?}, expected a group of this host's reboot_lock.groups ({}): name one of these \
         in the client (Zincati: `group` of its [identity]), or add the group to reboot_lock.groups on every host and \
         reload the agents",
        known.join(", ")
    );
    Err(FleetLockError::new(StatusCode::BAD_REQUEST, "unknown_group", why))
}
