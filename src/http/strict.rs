//! Request bodies. They are bounded in size and time, and refused if they contain an unknown field.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::{BODY_BYTES, BODY_TIME, Limits};
use super::reply::Refused;

/// A JSON body with exactly the fields of `T`.
pub(super) struct Strict<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned + Serialize> FromRequest<S> for Strict<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let (bytes_limit, time_limit) = request
            .extensions()
            .get::<Limits>()
            .map_or((BODY_BYTES, BODY_TIME), |limits| (limits.body_bytes, limits.body));
        let declared = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > bytes_limit) {
            return Err(too_large(bytes_limit));
        }
        let body = read(request.into_body(), bytes_limit);
        let bytes = tokio::time::timeout(time_limit, body).await.map_err(|_| {
            Refused::bad(format!(
                "the body did not arrive within {} s",
                time_limit.as_secs_f32()
            ))
        })??;
        parse(&bytes).map(Self)
    }
}

async fn read(body: Body, limit: usize) -> Result<bytes::Bytes, Refused> {
    to_bytes(body, limit).await.map_err(|error| {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(current) = source {
            if current.is::<http_body_util::LengthLimitError>() {
                return too_large(limit);
            }
            source = current.source();
        }
        Refused::bad("the body ended early")
    })
}

fn too_large(limit: usize) -> Refused {
    Refused::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {limit} bytes"),
    )
}

fn parse<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, Refused> {
    let given: Value = serde_json::from_slice(bytes)
        .map_err(|error| Refused::bad(format!("the body is not JSON: {error}")))?;
    let value =
        T::deserialize(&given).map_err(|error| Refused::bad(format!("the body is not valid: {error}")))?;
    let understood = serde_json::to_value(&value).map_err(|error| Refused::bad(error.to_string()))?;
    match unknown_key(&given, &understood) {
        Some(key) => Err(Refused::bad(format!(
            "the body is not valid: unknown field `{key}`"
        ))),
        None => Ok(value),
    }
}

/// The first key that the type does not have. `deny_unknown_fields` does not cover everything (unit variants
/// of tagged enums, nested types), and an operator's typo must not be ignored.
fn unknown_key(given: &Value, understood: &Value) -> Option<String> {
    match (given, understood) {
        (Value::Object(given), Value::Object(understood)) => {
            given.iter().find_map(|(key, value)| match understood.get(key) {
                Some(inner) => unknown_key(value, inner),
                None => Some(key.clone()),
            })
        }
        (Value::Array(given), Value::Array(understood)) => given
            .iter()
            .zip(understood)
            .find_map(|(given, understood)| unknown_key(given, understood)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{Enquire, OperatorRequest};

    #[test]
    fn only_the_exact_shape_is_taken() {
        assert_eq!(
            parse::<OperatorRequest>(br#"{"request":"backup"}"#).unwrap(),
            OperatorRequest::Backup
        );
        let table = [
            ("not JSON", &b"\x16\x03\x01"[..], "not JSON"),
            ("unknown variant", br#"{"request":"erase"}"#, "unknown variant"),
            (
                "unknown field of a unit variant",
                br#"{"request":"backup","x":1}"#,
                "unknown field `x`",
            ),
            ("a list", b"[]", "not valid"),
        ];
        for (what, body, expected) in table {
            let error = parse::<OperatorRequest>(body).unwrap_err();
            assert!(error.text.contains(expected), "{what}: {}", error.text);
        }
        let error =
            parse::<Enquire>(br#"{"from":"../x","incarnation":"","electorate_digest":""}"#).unwrap_err();
        assert!(error.text.contains("node name"), "{}", error.text);
    }
}
