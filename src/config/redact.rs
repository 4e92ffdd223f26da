//! Hides possible secrets before a value is shown.

/// Hides possible secrets in a text: the user information and the query of a URL.
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
