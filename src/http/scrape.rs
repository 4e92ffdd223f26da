//! `GET /metrics`, in the format that the client accepts.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::ports::AgentHandle;
use crate::telemetry::{Counters, Format, Process, exposition};

/// The deadline for a look at this process. After it the answer has no metrics of the process.
const PROCESS: Duration = Duration::from_secs(1);

/// The answer to a scrape.
pub(super) async fn answer(handle: &dyn AgentHandle, counters: &Counters, headers: &HeaderMap) -> Response {
    let process = timeout(PROCESS, spawn_blocking(Process::read)).await;
    let process = process.ok().and_then(Result::ok).unwrap_or_default();
    let format = accepted(headers);
    let text = exposition(&handle.admin_status(), counters, &process, format);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// `OpenMetrics` if the client asks for its version 1.0.0, or for any, and does not prefer plain text. Everybody
/// else gets the text format.
fn accepted(headers: &HeaderMap) -> Format {
    let (mut openmetrics, mut text) = (0.0, 0.0);
    let accept = headers.get_all(header::ACCEPT).iter();
    for range in accept
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
    {
        let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
        let kind = parts.next().unwrap_or_default();
        let (mut quality, mut version) = (1.0_f32, None);
        for part in parts {
            match part.split_once('=') {
                Some(("q", value)) => quality = value.trim().parse().unwrap_or(0.0),
                Some(("version", value)) => version = Some(value.trim_matches('"').to_owned()),
                _ => {}
            }
        }
        match kind.as_str() {
            "application/openmetrics-text" if version.is_none_or(|version| version == "1.0.0") => {
                openmetrics = quality.max(openmetrics);
            }
            "text/plain" => text = quality.max(text),
            _ => {}
        }
    }
    if openmetrics > 0.0 && openmetrics >= text {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_format() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            application/openmetrics-text;version=0.0.1;q=0.5,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let text_first = "text/plain;version=0.0.4;q=0.6, application/openmetrics-text;version=1.0.0;q=0.5";
        let table: [(&str, &[&str], Format); 12] = [
            ("nothing is asked for", &[], Format::Text),
            ("curl", &["*/*"], Format::Text),
            ("Prometheus 2", &[prometheus_2], Format::OpenMetrics),
            ("Prometheus 3", &[prometheus_3], Format::OpenMetrics),
            ("a scraper that prefers text", &[text_first], Format::Text),
            (
                "any version",
                &["application/openmetrics-text"],
                Format::OpenMetrics,
            ),
            (
                "in quotes",
                &["Application/OpenMetrics-Text; Version=\"1.0.0\""],
                Format::OpenMetrics,
            ),
            (
                "two lines",
                &["text/plain;q=0.1", "application/openmetrics-text"],
                Format::OpenMetrics,
            ),
            (
                "an old draft only",
                &["application/openmetrics-text;version=0.0.1"],
                Format::Text,
            ),
            ("not at all", &["application/openmetrics-text;q=0"], Format::Text),
            (
                "a bad quality",
                &["application/openmetrics-text;q=x"],
                Format::Text,
            ),
            ("protobuf", &["application/vnd.google.protobuf"], Format::Text),
        ];
        for (what, accept, expected) in table {
            let mut headers = HeaderMap::new();
            for line in accept {
                headers.append(header::ACCEPT, line.parse().unwrap());
            }
            assert_eq!(accepted(&headers), expected, "{what}");
        }
    }
}
