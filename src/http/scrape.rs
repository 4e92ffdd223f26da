//! `GET /metrics`.

use std::time::Duration;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::ports::AgentHandle;
use crate::telemetry::{Counters, Format, Process, exposition};

/// The deadline for a look at this process. After it the answer has no metrics of the process.
const PROCESS: Duration = Duration::from_secs(1);

/// The answer to a scrape.
pub(super) async fn answer(handle: &dyn AgentHandle, counters: &Counters) -> Response {
    let process = timeout(PROCESS, spawn_blocking(Process::read)).await;
    let process = process.ok().and_then(Result::ok).unwrap_or_default();
    let format = Format::Text;
    let text = exposition(&handle.admin_status(), counters, &process, format);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}
