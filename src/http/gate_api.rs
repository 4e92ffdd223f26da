//! The gate's socket: one read-only question that anybody on the host may ask.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::reply::with_fallbacks;
use crate::ports::AgentHandle;

/// `GET /v1/gate`.
#[derive(Debug, Serialize)]
struct Gate {
    /// True when etcd may start.
    clear: bool,
    /// What is waited for, otherwise.
    text: String,
}

pub(super) fn router(handle: Arc<dyn AgentHandle>) -> Router {
    with_fallbacks(Router::new().route("/v1/gate", get(gate)).with_state(handle))
}

async fn gate(State(handle): State<Arc<dyn AgentHandle>>) -> Json<Gate> {
    let (clear, text) = handle.gate();
    Json(Gate { clear, text })
}
