//! What etcd's errors mean for the caller.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use crate::adapters::tls::{explain, one_line};
use crate::ports::PortError;

/// Temporary refusals. etcd returns them before it proposes anything. Source: etcd's
/// `api/v3rpc/rpctypes/error.go`.
const NOT_NOW: &[&str] = &[
    "unhealthy cluster",
    "not enough started members",
    "too many learner",
    "in sync with leader",
    "too many requests",
    "rpc not supported for learner",
];

/// Whether a request changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Change,
}

/// What an error of `etcd-client` means.
pub(super) fn client_error(what: &str, kind: Kind, error: etcd_client::Error) -> PortError {
    match error {
        etcd_client::Error::GRpcStatus(status) => status_error(what, kind, &status),
        etcd_client::Error::TransportError(error) => lost(what, kind, &explain(&error)),
        other => PortError::Permanent(format!("{what}: {}", one_line(&other.to_string()))),
    }
}

/// What a gRPC status means.
pub(super) fn status_error(what: &str, kind: Kind, status: &Status) -> PortError {
    if let Some(connect) = connect_error(status) {
        return PortError::Retryable(format!("{what}: {}", explain(connect)));
    }
    let said = said(status);
    if NOT_NOW.iter().any(|text| status.message().contains(text)) {
        return PortError::Retryable(format!("{what}: {said}"));
    }
    match status.code() {
        Code::NotFound
        | Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::AlreadyExists
        | Code::OutOfRange
        | Code::Unimplemented => PortError::Permanent(format!("{what}: {said}")),
        Code::PermissionDenied | Code::Unauthenticated => PortError::Permanent(format!(
            "{what}: {said}: etcd has authentication enabled, the certificate's common name needs the root role"
        )),
        // `request timed out` has the code Unavailable: the proposal may have been committed nevertheless.
        _ => lost(what, kind, &said),
    }
}

/// A deadline passed after the request was sent.
pub(super) fn no_answer(what: &str, kind: Kind, deadline: std::time::Duration) -> PortError {
    lost(what, kind, &format!("no answer within {} s", deadline.as_secs()))
}

fn lost(what: &str, kind: Kind, why: &str) -> PortError {
    let text = format!("{what}: {why}");
    match kind {
        Kind::Read => PortError::Retryable(text),
        Kind::Change => PortError::OutcomeUnknown(text),
    }
}

fn said(status: &Status) -> String {
    let message = status.message();
    match status.source() {
        // tonic's own `transport error` gives no cause; its source does.
        Some(source) if !message.starts_with("etcdserver") => explain(source),
        _ if message.is_empty() => format!("{:?}", status.code()),
        _ => one_line(message),
    }
}

fn connect_error(status: &Status) -> Option<&(dyn StdError + 'static)> {
    let mut next = status.source();
    while let Some(current) = next {
        if current.is::<ConnectError>() {
            return Some(current);
        }
        next = current.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_refusals_by_what_they_allow_to_do_next() {
        let retryable = |text: &str| PortError::Retryable(format!("add: {text}"));
        let table = [
            (
                Code::Unavailable,
                "etcdserver: unhealthy cluster",
                retryable("etcdserver: unhealthy cluster"),
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: can only promote a learner member which is in sync with leader",
                retryable("etcdserver: can only promote a learner member which is in sync with leader"),
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out",
                PortError::OutcomeUnknown("add: etcdserver: request timed out".to_owned()),
            ),
            (
                Code::NotFound,
                "etcdserver: member not found",
                PortError::Permanent("add: etcdserver: member not found".to_owned()),
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: can only promote a learner member",
                PortError::Permanent("add: etcdserver: can only promote a learner member".to_owned()),
            ),
        ];
        for (code, text, expected) in table {
            assert_eq!(
                status_error("add", Kind::Change, &Status::new(code, text)),
                expected
            );
        }
        assert!(matches!(
            status_error(
                "x",
                Kind::Read,
                &Status::new(Code::Unavailable, "etcdserver: request timed out")
            ),
            PortError::Retryable(_)
        ));
    }
}
