//! Metrics, read only: plain HTTP for a scraper on the same host, or over mutual TLS. The status page is next
//! to them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use super::reply::with_fallbacks;
use super::{page_api, scrape};
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

struct Api {
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
}

/// `names` are the names of this host, see [`page_api`].
pub(super) fn router(handle: Arc<dyn AgentHandle>, counters: Arc<Counters>, names: Vec<String>) -> Router {
    let page = page_api::router(handle.clone(), names);
    let api = Arc::new(Api { handle, counters });
    let metrics = Router::new().route("/metrics", get(metrics)).with_state(api);
    with_fallbacks(metrics.merge(page))
}

async fn metrics(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    scrape::answer(api.handle.as_ref(), &api.counters, &headers).await
}
