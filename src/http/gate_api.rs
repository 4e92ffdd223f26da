//! The API on the gate's socket, for root, the agent's user and `etcd.service`. Nothing here changes etcd.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;

use super::reply::{Reply, with_fallbacks};
use crate::model::Leave;
use crate::ports::AgentHandle;

/// `GET /v1/gate`.
#[derive(Debug, Serialize)]
struct Gate {
    /// True when etcd may start.
    clear: bool,
    /// What the agent waits for, if etcd may not start.
    text: String,
}

/// `POST /v1/gate/stop`.
#[derive(Debug, Serialize)]
struct Stop {
    /// What was stored, or why it was not.
    text: String,
}

pub(super) fn router(handle: Arc<dyn AgentHandle>) -> Router {
    let routes = Router::new()
        .route("/v1/gate", get(gate))
        .route("/v1/gate/leave", post(leave))
        .route("/v1/gate/stop", post(stop));
    with_fallbacks(routes.with_state(handle))
}

/// Answers 503 if the agent has no answer. The gate treats that like an agent that does not answer.
async fn gate(State(handle): State<Arc<dyn AgentHandle>>) -> Reply<Gate> {
    let (clear, text) = handle.gate()?;
    Ok(Json(Gate { clear, text }))
}

async fn leave(State(handle): State<Arc<dyn AgentHandle>>) -> Json<Leave> {
    Json(handle.leave_to_stop().await)
}

async fn stop(State(handle): State<Arc<dyn AgentHandle>>) -> Json<Stop> {
    let text = handle.before_stop().await;
    Json(Stop { text })
}
