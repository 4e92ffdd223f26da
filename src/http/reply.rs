//! Answers: JSON, and every error as `{"error": "..."}`.

use axum::Json;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::model::ApiError;
use crate::ports::PortError;

/// An error answer. Its text is kept in the response's extensions, for the log.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = Json(ApiError {
            error: self.text.clone(),
        });
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// 503 means that nothing was done. 500 means that the outcome is unknown.
impl From<PortError> for Refused {
    fn from(error: PortError) -> Self {
        let status = match &error {
            PortError::Retryable(_) => StatusCode::SERVICE_UNAVAILABLE,
            PortError::Permanent(_) => StatusCode::BAD_REQUEST,
            PortError::OutcomeUnknown(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl Refused {
    /// An error of the store. Its status 502 differs from those of an agent that does not answer or refuses a
    /// request.
    pub(super) fn by_store(error: &PortError) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, error.to_string())
    }
}

/// The result of a handler.
pub(super) type Reply<T> = Result<Json<T>, Refused>;

/// Adds JSON answers for paths and methods that do not exist.
pub(super) fn with_fallbacks(router: Router) -> Router {
    router
        .fallback(|| async { Refused::new(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed on this path")
        })
}
