//! Metrics over plain HTTP, read only, for a scraper on the same host.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::reply::{self, with_fallbacks};
use crate::ports::AgentHandle;
use crate::telemetry::{Counters, exposition};

struct Api {
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
}

pub(super) fn router(handle: Arc<dyn AgentHandle>, counters: Arc<Counters>) -> Router {
    let api = Arc::new(Api { handle, counters });
    with_fallbacks(Router::new().route("/metrics", get(metrics)).with_state(api))
}

async fn metrics(State(api): State<Arc<Api>>) -> Response {
    reply::metrics(exposition(&api.handle.admin_status(), &api.counters))
}
