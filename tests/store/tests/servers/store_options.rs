//! Options of `[store]` on real servers: authorities (S35), encryption, checksums, a proxy.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use etcd_agent::adapters::store::open_store;
use etcd_agent::adapters::store_check::check_store;
use etcd_agent::config::{Proxy, Sse};
use etcd_agent::ports::PortError;
use etcd_agent_lab::{Authority, Fault, Faults};
use etcd_agent_store_tests::{AnyS3, Kind, noise, use_it};

#[tokio::test]
async fn s35_only_the_right_authority_is_trusted() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start_tls(kind).await;
        use_it(s3.store().as_ref()).await;

        let wrong = Authority::open(&s3.dir().join("wrong-ca"), "another CA").unwrap();
        let system = None;
        for ca_file in [Some(wrong.cert_path()), system] {
            let mut settings = s3.settings();
            settings.ca_file = ca_file;
            let error = open_store(&settings).list("").await.unwrap_err();
            assert!(error.to_string().contains("certificate"), "{kind:?}: {error}");
        }
    }
}

/// The adapter uses a replaced authority without a restart.
#[tokio::test]
async fn s35_a_new_authority_in_the_file_is_taken_up() {
    let s3 = AnyS3::start_tls(Kind::Versitygw).await;
    let wrong = Authority::open(&s3.dir().join("wrong-ca"), "another CA").unwrap();
    let file: PathBuf = s3.dir().join("bundle.crt");
    fs::write(&file, wrong.cert()).unwrap();
    let mut settings = s3.settings();
    let right = settings.ca_file.replace(file.clone()).unwrap();
    let store = open_store(&settings);
    assert!(store.list("").await.is_err());
    fs::copy(right, &file).unwrap();
    assert_eq!(store.list("").await.unwrap(), []);
}

/// Tests the options of `[store]` that only some servers support, on a server that supports them.
#[tokio::test]
async fn objects_are_encrypted_by_the_server_as_it_is_told() {
    let s3 = AnyS3::start_tls(Kind::Minio).await;
    let key_file = s3.dir().join("customer-key");
    fs::write(&key_file, [7_u8; 32]).unwrap();
    for (sse, header) in [
        (Sse::S3, Some("AES256")),
        (
            Sse::Kms {
                key: Some("lab".to_owned()),
            },
            Some("aws:kms"),
        ),
        (
            Sse::Customer {
                key_file: key_file.clone(),
            },
            None,
        ),
    ] {
        let mut settings = s3.settings();
        settings.options.sse = sse.clone();
        let store = open_store(&settings);
        store.put("seen/small", Bytes::from_static(b"x")).await.unwrap();
        let mut upload = store.upload("seen/big").await.unwrap();
        upload.write(noise(9 << 20)).await.unwrap();
        upload.complete().await.unwrap();
        for key in ["etcd/prod/seen/small", "etcd/prod/seen/big"] {
            let head = s3
                .client(None)
                .head_object()
                .bucket("backups")
                .key(key)
                .send()
                .await;
            match header {
                Some(header) => {
                    let found = head
                        .unwrap()
                        .server_side_encryption()
                        .map(|sse| sse.as_str().to_owned());
                    assert_eq!(found.as_deref(), Some(header), "{key} with {sse:?}");
                }
                // The object cannot be read without the key.
                None => assert!(head.is_err(), "{key} is readable without its key"),
            }
        }
        for key in ["seen/small", "seen/big"] {
            store.delete(key).await.unwrap();
        }
        use_it(store.as_ref()).await;
        let report = check_store(&settings, |_| ()).await;
        assert!(report.ok, "{report:?}");
    }
}

#[tokio::test]
async fn a_customers_key_that_changes_is_read_anew() {
    let s3 = AnyS3::start_tls(Kind::Minio).await;
    let key_file = s3.dir().join("customer-key");
    let mut settings = s3.settings();
    settings.options.sse = Sse::Customer {
        key_file: key_file.clone(),
    };
    let store = open_store(&settings);
    let error = store.list("").await.unwrap_err();
    assert!(
        error.to_string().contains("cannot read store.sse_key_file"),
        "{error}"
    );
    fs::write(&key_file, "too short").unwrap();
    let error = store.list("").await.unwrap_err();
    assert!(error.to_string().contains("must hold 32 bytes"), "{error}");
    fs::write(&key_file, [7_u8; 32]).unwrap();
    store.put("x", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(store.get_small("x").await.unwrap().unwrap(), "x");
}

#[tokio::test]
async fn checksums_are_sent_where_they_are_asked_for() {
    for kind in Kind::ALL {
        // Over TLS only the checksum covers the parts of an upload.
        for s3 in [AnyS3::start(kind).await, AnyS3::start_tls(kind).await] {
            let mut settings = s3.settings();
            settings.options.checksums = true;
            use_it(open_store(&settings).as_ref()).await;
            let report = check_store(&settings, |_| ()).await;
            assert!(report.ok, "{report:?}");
        }
    }
}

/// The endpoint's name does not resolve. Only the proxy knows the server's address.
#[tokio::test]
async fn a_proxy_is_gone_through() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let proxy = Faults::before(s3.address(), |_, _| Fault::Pass).await.unwrap();
    let mut settings = s3.settings();
    settings.endpoint = Some("http://s3.nowhere.invalid".to_owned());
    settings.options.proxy = Proxy::Url(format!("http://{}", proxy.address()));
    use_it(open_store(&settings).as_ref()).await;
    assert!(proxy.seen().len() > 10);

    settings.options.proxy = Proxy::Off;
    let error = open_store(&settings).list("").await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error}");
}
