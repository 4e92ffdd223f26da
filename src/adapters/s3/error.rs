//! Turns the SDK's errors into port errors: one line, with advice, without secrets.

use std::error::Error;
use std::fmt::Write;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::ports::PortError;

const LONGEST: usize = 600;

/// The HTTP status, if the store answered at all.
pub(super) fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// True if the store does not implement the request. Without the condition the request may succeed.
pub(super) fn is_not_implemented<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    matches!(error, SdkError::ServiceError(_))
        && (status(error) == Some(501) || error.code() == Some("NotImplemented"))
}

/// True if the credentials were refused or could not be obtained.
pub(super) fn is_auth<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::ServiceError(_) => {
            matches!(status(error), Some(401 | 403)) || error.code() == Some("ExpiredToken")
        }
        SdkError::DispatchFailure(failure) => !failure.is_io() && !failure.is_timeout(),
        _ => false,
    }
}

/// A port error that says what was tried, on what, the result, and what the operator can do.
pub(super) fn explain<E>(store: &str, what: &str, key: &str, error: &SdkError<E>) -> PortError
where
    E: Error + ProvideErrorMetadata + 'static,
{
    let mut text = format!(
        "{store}: cannot {what} {}: ",
        if key.is_empty() { "objects" } else { key }
    );
    let permanent = match error {
        SdkError::ServiceError(_) => {
            let status = status(error).unwrap_or(0);
            let code = error.code().unwrap_or("no error code");
            let _ = write!(text, "{code} (HTTP {status})");
            if let Some(message) = error.message() {
                let _ = write!(text, ": {message}");
            }
            if let Some(hint) = hint(code, status) {
                let _ = write!(text, "; {hint}");
            }
            // 501 is permanent: the store does not implement the request.
            let again = (status >= 500 && status != 501) || matches!(status, 408 | 429);
            !again && !matches!(code, "SlowDown" | "RequestTimeout" | "OperationAborted")
        }
        SdkError::TimeoutError(_) => {
            text.push_str("the store did not answer in time");
            false
        }
        other => {
            text.push_str(&chain(other));
            if text.contains("credential") {
                text.push_str("; set store.credentials_file, or give the host a role or AWS_* variables");
            }
            matches!(other, SdkError::ConstructionFailure(_))
        }
    };
    let text = one_line(&text);
    if permanent {
        PortError::Permanent(text)
    } else {
        PortError::Retryable(text)
    }
}

fn hint(code: &str, status: u16) -> Option<&'static str> {
    Some(match code {
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken" => {
            "check the access key and its secret in store.credentials_file"
        }
        "InvalidObjectState" => {
            "it is in an archive class: restore it there first (`aws s3api restore-object`), and let the bucket's \
             lifecycle rules leave backups alone"
        }
        "NotImplemented" => "the store does not know this request: use another store",
        "NoSuchBucket" => "create the bucket or correct store.url",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException" => {
            "set store.region to the bucket's"
        }
        "RequestTimeTooSkewed" => "set this host's clock",
        _ if status == 403 => {
            "give the credentials the right to list, read, write and delete below store.url"
        }
        _ if status == 301 => "set store.region to the bucket's",
        _ => return None,
    })
}

/// The error and its causes, outermost first, without repetitions.
fn chain(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let line = error.to_string();
        if !text.contains(&line) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&line);
        }
        next = error.source();
    }
    text
}

pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect()
}
