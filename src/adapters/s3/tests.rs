use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::super::store::{open_store, probe_conditional_writes};
use super::*;
use crate::config::{Proxy, S3Options, StoreSettings, StoreUrl};

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// The part of S3 that a probe needs. It honours `If-None-Match` and `If-Match` if `honours` is true, and
/// otherwise ignores them.
async fn serve(honours: bool) -> (String, Objects) {
    let objects = Objects::default();
    let app = Router::new()
        .fallback(
            move |State(objects): State<Objects>,
                  method: Method,
                  uri: Uri,
                  headers: HeaderMap,
                  body: Bytes| async move {
                answer(&objects, honours, &method, uri.path(), &headers, body)
            },
        )
        .with_state(objects.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (endpoint, objects)
}

fn answer(
    objects: &Objects,
    honours: bool,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Response {
    let mut objects = objects.lock().unwrap();
    match *method {
        Method::PUT if honours && headers.contains_key("if-none-match") && objects.contains_key(path) => {
            StatusCode::PRECONDITION_FAILED.into_response()
        }
        Method::PUT
            if honours
                && headers
                    .get("if-match")
                    .is_some_and(|tag| objects.get(path).is_none_or(|there| tag != etag(there).as_str())) =>
        {
            StatusCode::PRECONDITION_FAILED.into_response()
        }
        Method::PUT => {
            objects.insert(path.to_owned(), body);
            StatusCode::OK.into_response()
        }
        Method::GET if objects.contains_key(path) => {
            let body = objects[path].clone();
            ([("etag", etag(&body))], body).into_response()
        }
        Method::GET => {
            let text = "<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>";
            (StatusCode::NOT_FOUND, text).into_response()
        }
        _ => {
            objects.remove(path);
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

fn etag(body: &[u8]) -> String {
    format!("\"{}\"", crate::model::digest(body))
}

fn settings(endpoint: &str, credentials: &std::path::Path) -> StoreSettings {
    StoreSettings {
        url: StoreUrl::S3 {
            bucket: "backups".to_owned(),
            prefix: "a/b".to_owned(),
        },
        endpoint: Some(endpoint.to_owned()),
        region: None,
        path_style: true,
        ca_file: None,
        credentials_file: Some(credentials.to_owned()),
        shared: true,
        options: S3Options {
            proxy: Proxy::Off,
            ..S3Options::default()
        },
    }
}

fn credentials() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[default]\naws_access_key_id = labaccess\naws_secret_access_key = very-secret\n";
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn a_store_that_ignores_if_none_match_is_found_out_and_named() {
    let credentials = credentials();
    let (endpoint, objects) = serve(false).await;
    let store = open_store(&settings(&endpoint, credentials.path()));
    assert!(!store.conditional_writes().await.unwrap());
    for error in [
        probe_conditional_writes(store.as_ref()).await.unwrap_err(),
        store.create("x", Bytes::new()).await.unwrap_err(),
    ] {
        assert!(matches!(error, PortError::Permanent(_)));
        let text = error.to_string();
        assert!(
            text.contains(&format!("s3://backups/a/b at {endpoint} ignores")),
            "{text}"
        );
    }
    assert!(objects.lock().unwrap().is_empty(), "the probe cleans up");
}

#[tokio::test]
async fn a_store_that_honours_it_is_asked_once() {
    let credentials = credentials();
    let (endpoint, objects) = serve(true).await;
    let store = open_store(&settings(&endpoint, credentials.path()));
    probe_conditional_writes(store.as_ref()).await.unwrap();
    assert!(objects.lock().unwrap().is_empty(), "the probe cleans up");
    assert_eq!(
        store.create("x", Bytes::from_static(b"1")).await.unwrap(),
        Created::Created
    );
    let again = store.create("x", Bytes::from_static(b"2")).await.unwrap();
    assert_eq!(again, Created::Exists(Bytes::from_static(b"1")));
    assert_eq!(store.get_small("y").await.unwrap(), None);
}

#[tokio::test]
async fn what_is_wrong_with_the_files_is_reported_and_nothing_in_them() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = file(
        "good",
        "[default]\naws_access_key_id = a\naws_secret_access_key = b\n",
    );
    let at = |credentials: &std::path::Path, ca: Option<&std::path::Path>| StoreSettings {
        ca_file: ca.map(std::path::Path::to_owned),
        ..settings("https://127.0.0.1:1", credentials)
    };
    let secret = file("secret", "very-secret");
    let broken = file("broken", "-----BEGIN CERTIFICATE-----\nvery-secret\n");
    for (settings, why) in [
        (
            at(&place.path().join("none"), None),
            "cannot read store.credentials_file",
        ),
        (at(&secret, None), "has no aws_access_key_id"),
        (at(&good, Some(&place.path().join("none"))), "store.ca_file"),
        (at(&good, Some(&secret)), "there is no certificate in it"),
        (at(&good, Some(&broken)), "not PEM"),
    ] {
        let error = open_store(&settings).list("").await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains(why), "{error} does not say {why:?}");
        assert!(!error.to_string().contains("very-secret"), "{error}");
    }
}

#[test]
fn an_address_shows_no_password() {
    for (url, shown) in [
        ("https://user:very-secret@s3.example/x", "https://s3.example/x"),
        ("http://s3.example:9000", "http://s3.example:9000"),
        ("http://s3.example/a@b", "http://s3.example/a@b"),
    ] {
        assert_eq!(client::without_user(url), shown);
    }
}

#[tokio::test]
async fn missing_credentials_are_reported() {
    let settings = StoreSettings {
        credentials_file: None,
        ..settings("http://127.0.0.1:1", std::path::Path::new(""))
    };
    let error = open_store(&settings).list("").await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("s3://backups/a/b at http://127.0.0.1:1: cannot list"),
        "{error}"
    );
}

#[tokio::test]
async fn an_object_is_replaced_only_where_it_is_what_was_read() {
    let credentials = credentials();
    let (endpoint, objects) = serve(true).await;
    let store = open_store(&settings(&endpoint, credentials.path()));
    assert_eq!(store.get_tagged("x").await.unwrap(), None);
    store.put("x", Bytes::from_static(b"1")).await.unwrap();
    let (body, tag) = store.get_tagged("x").await.unwrap().unwrap();
    assert_eq!(body, "1");
    let replace = |body: &'static [u8]| store.replace("x", Bytes::from_static(body), &tag);
    assert_eq!(replace(b"2").await.unwrap(), Replaced::Done);
    assert_eq!(replace(b"3").await.unwrap(), Replaced::Changed);
    // As if the answer to the first request was lost and the SDK sent it again.
    assert_eq!(replace(b"2").await.unwrap(), Replaced::Done);
    assert_eq!(store.get_small("x").await.unwrap().unwrap(), "2");
    store.delete("x").await.unwrap();
    assert_eq!(replace(b"3").await.unwrap(), Replaced::Changed);
    assert!(objects.lock().unwrap().is_empty(), "the probe cleans up");
}

#[tokio::test]
async fn a_store_that_ignores_if_match_is_found_out_and_nothing_is_overwritten() {
    let credentials = credentials();
    let (endpoint, objects) = serve(false).await;
    let store = open_store(&settings(&endpoint, credentials.path()));
    store.put("x", Bytes::from_static(b"1")).await.unwrap();
    let (_, tag) = store.get_tagged("x").await.unwrap().unwrap();
    let error = store
        .replace("x", Bytes::from_static(b"2"), &tag)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, PortError::Permanent(text) if text.contains("ignores `If-Match`")),
        "{error}"
    );
    assert_eq!(store.get_small("x").await.unwrap().unwrap(), "1");
    assert_eq!(objects.lock().unwrap().len(), 1, "the probe cleans up");
}

/// A store that answers with this error if `wanted` is true for a request. It accepts every other write
/// without keeping it, and answers every other read with the same object.
async fn answering(
    wanted: impl Fn(&Method, &HeaderMap) -> bool + Clone + Send + Sync + 'static,
    status: u16,
    code: &'static str,
) -> String {
    let app = Router::new().fallback(move |method: Method, headers: HeaderMap| {
        let refuse = wanted(&method, &headers);
        async move {
            if refuse {
                let text = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
                (StatusCode::from_u16(status).unwrap(), text).into_response()
            } else if method == Method::GET {
                ([("etag", "\"1\"")], "there").into_response()
            } else {
                StatusCode::OK.into_response()
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    endpoint
}

/// Backblaze B2 answers this way to a request with a condition, and accepts all other requests.
#[tokio::test]
async fn b07_a_store_that_does_not_know_conditions_can_hold_backups() {
    let credentials = credentials();
    let conditional =
        |_: &Method, h: &HeaderMap| h.contains_key("if-none-match") || h.contains_key("if-match");
    let endpoint = answering(conditional, 501, "NotImplemented").await;
    let store = open_store(&settings(&endpoint, credentials.path()));
    assert!(!store.conditional_writes().await.unwrap());
    store.put("x", Bytes::from_static(b"1")).await.unwrap();
    let (_, tag) = store.get_tagged("x").await.unwrap().unwrap();
    for error in [
        store.create("x", Bytes::new()).await.unwrap_err(),
        store.replace("x", Bytes::new(), &tag).await.unwrap_err(),
    ] {
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains("does not know it"), "{error}");
    }
}

#[tokio::test]
async fn b07_b16_what_a_store_does_not_have_and_what_it_has_archived_are_distinguished_from_rights() {
    let credentials = credentials();
    for (status, code, says) in [
        (501, "NotImplemented", "does not know this request"),
        (403, "InvalidObjectState", "archive class"),
        (403, "AccessDenied", "give the credentials the right"),
    ] {
        let endpoint = answering(|_, _| true, status, code).await;
        let store = open_store(&settings(&endpoint, credentials.path()));
        let error = store.get_small("x").await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains(says), "{error} does not say {says:?}");
    }
}
