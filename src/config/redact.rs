//! Hides what could be a secret before a value is shown.

/// Hides what could be a secret in a text: user information and the query of a URL.
pub fn redact(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => rest.to_owned(),
    };
    let rest = match rest.split_once('?') {
        Some((path, _)) => format!("{path}?***"),
        None => rest,
    };
    format!("{scheme}://{rest}")
}
