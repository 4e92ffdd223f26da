//! S31 and S35 through a proxy that imitates the faults of networks and overloaded stores, on two S3 servers.

use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::retry::RetryConfig;
use bytes::Bytes;
use etcd_agent::adapters::store::{open_store, probe_conditional_writes};
use etcd_agent::model::ClusterName;
use etcd_agent::ports::PortError;
use etcd_agent_lab::{Fault, Faults};
use etcd_agent_store_tests::{AnyS3, Kind, noise, read, use_it};
use futures::TryStreamExt;

#[tokio::test]
async fn s35_both_servers_do_all_that_is_needed() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        probe_conditional_writes(s3.store().as_ref()).await.unwrap();
        use_it(s3.store().as_ref()).await;
    }
}

#[tokio::test]
async fn s35_a_slow_store_is_only_slow() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let slow = Faults::before(s3.address(), |_, _| Fault::Slow(8 << 20))
            .await
            .unwrap();
        use_it(open_store(&s3.settings_at(slow.address())).as_ref()).await;
    }
}

#[tokio::test]
async fn s35_answers_of_503_are_tried_again() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let busy = Faults::before(s3.address(), |number, _| {
            if number % 3 == 0 {
                Fault::slow_down()
            } else {
                Fault::Pass
            }
        })
        .await
        .unwrap();
        use_it(open_store(&s3.settings_at(busy.address())).as_ref()).await;
        assert!(busy.seen().len() > 15, "{:?}", busy.seen());
    }
}

#[tokio::test]
async fn s35_a_store_that_is_always_busy_is_asked_five_times_and_no_more() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let busy = Faults::before(s3.address(), |_, _| Fault::slow_down())
        .await
        .unwrap();
    let store = open_store(&s3.settings_at(busy.address()));
    let error = store.list("").await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error}");
    assert!(error.to_string().contains("SlowDown"), "{error}");
    assert_eq!(busy.seen().len(), 5, "{:?}", busy.seen());
}

#[tokio::test]
async fn s31_s35_lost_connections_and_lost_answers_do_no_harm() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        // If the answer to a create is lost, its outcome is unknown and the adapter does not repeat it. This
        // test therefore injects no faults into creates.
        let bad = Faults::before(s3.address(), |number, (method, path)| {
            match (method.as_str(), number % 4) {
                _ if path.contains("once") || path.contains("probe") => Fault::Pass,
                ("PUT" | "POST", 1) => Fault::Hangup,
                ("PUT" | "POST", 3) if !path.contains("uploads") => Fault::Lost,
                ("GET", 2) => Fault::Truncate(3 << 20),
                _ => Fault::Pass,
            }
        })
        .await
        .unwrap();
        use_it(open_store(&s3.settings_at(bad.address())).as_ref()).await;
    }
}

#[tokio::test]
async fn s31_bodies_that_are_cut_are_read_on_where_they_broke() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let body = noise(9 << 20);
        s3.store().put("big", body.clone()).await.unwrap();
        let cut = Faults::before(s3.address(), |_, _| Fault::Truncate(2 << 20))
            .await
            .unwrap();
        let store = open_store(&s3.settings_at(cut.address()));
        assert!(read(store.as_ref(), "big").await == body.as_ref());
        assert!(cut.seen().len() >= 5, "{:?}", cut.seen());

        // The adapter gives up if every connection breaks at once. It never returns the partial body as a
        // complete one.
        let dead = Faults::before(s3.address(), |_, _| Fault::Truncate(1))
            .await
            .unwrap();
        let store = open_store(&s3.settings_at(dead.address()));
        let stream = store.get("big").await.unwrap().unwrap();
        let error = stream.try_collect::<Vec<Bytes>>().await.unwrap_err();
        assert!(matches!(error, PortError::Retryable(_)), "{error}");
        assert!(dead.seen().len() > 5, "{:?}", dead.seen());
    }
}

/// Reading a large object may take any number of connections, as long as each of them makes progress.
#[tokio::test]
async fn b16_what_goes_on_is_not_given_up_however_often_it_breaks() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let body = noise(17 << 20);
    s3.store().put("big", body.clone()).await.unwrap();
    let cut = Faults::before(s3.address(), |_, _| Fault::Truncate(2 << 20))
        .await
        .unwrap();
    let store = open_store(&s3.settings_at(cut.address()));
    assert!(read(store.as_ref(), "big").await == body.as_ref());
    assert!(cut.seen().len() > 6, "{:?}", cut.seen());
}

/// The store refuses one object, for example because its encryption key was deleted or because the object is
/// in an archive tier.
#[tokio::test]
async fn b02_an_object_that_the_store_refuses_hides_no_other_backup() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let cluster = ClusterName::new("prod").unwrap();
    let marker = r#"{"etcdVersion":"3.5.7","timestamp":"1700000000"}"#;
    for name in ["2023-11-14T22:13:20Z-000001", "2023-11-14T23:13:20Z-000002"] {
        for (file, body) in [("etcd.backup.gz", "gz"), ("_etcd_backup.meta", marker)] {
            let key = format!("{name}/{file}");
            s3.store()
                .put(&key, Bytes::from_static(body.as_bytes()))
                .await
                .unwrap();
        }
    }
    let answer = |status: u16, code: &'static str| {
        move |_: usize, (method, path): &(String, String)| {
            if method == "GET" && path.contains("000001/_etcd_backup.meta") {
                let text = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
                Fault::Answer(status, Bytes::from(text))
            } else {
                Fault::Pass
            }
        }
    };
    let denied = Faults::before(s3.address(), answer(403, "AccessDenied"))
        .await
        .unwrap();
    let store = open_store(&s3.settings_at(denied.address()));
    let found = etcd_agent::backup::list(store.as_ref(), &cluster).await.unwrap();
    assert_eq!(found.backups.len(), 1, "{found:?}");
    assert!(found.unreadable[0].1.contains("AccessDenied"), "{found:?}");
    // A temporary error says nothing about this backup, and so the whole listing fails and can be retried.
    let busy = Faults::before(s3.address(), answer(503, "SlowDown"))
        .await
        .unwrap();
    let store = open_store(&s3.settings_at(busy.address()));
    let error = etcd_agent::backup::list(store.as_ref(), &cluster)
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error}");
}

#[tokio::test]
async fn s31_an_upload_that_the_store_refuses_halfway_leaves_nothing() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let refusing = Faults::before(s3.address(), |_, (_, path)| {
            let text = "<Error><Code>InvalidRequest</Code><Message>no</Message></Error>";
            if path.contains("partNumber=2") {
                Fault::Answer(400, Bytes::from_static(text.as_bytes()))
            } else {
                Fault::Pass
            }
        })
        .await
        .unwrap();
        let store = open_store(&s3.settings_at(refusing.address()));
        let mut upload = store.upload("big").await.unwrap();
        let written = upload.write(noise(30 << 20)).await;
        let error = match written {
            Ok(()) => upload.complete().await.unwrap_err(),
            Err(error) => {
                upload.abort().await.unwrap();
                error
            }
        };
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert_eq!(store.list("").await.unwrap(), []);
        let left = || async {
            let client = s3.client(None);
            let uploads = client
                .list_multipart_uploads()
                .bucket("backups")
                .send()
                .await
                .unwrap();
            uploads.uploads().len()
        };
        for _ in 0..200 {
            if left().await == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(left().await, 0, "{kind:?}: parts stay in the store");
    }
}

#[tokio::test]
async fn s35_listings_of_more_than_a_thousand_go_on_over_pages() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let store = s3.store();
        let keys: Vec<String> = (0..1100).map(|n| format!("many/{n:06}")).collect();
        for some in keys.chunks(50) {
            let puts = some.iter().map(|key| store.put(key, Bytes::from_static(b"x")));
            futures::future::try_join_all(puts).await.unwrap();
        }
        let found: Vec<String> = store.list("").await.unwrap().into_iter().map(|o| o.key).collect();
        assert_eq!(found, keys, "{kind:?}");
    }
}

/// The client corrects a wrong clock with the server's time. If that does not help, the error names the
/// clock. To test this, a proxy gives the agent the answer of each server to a request that was signed two
/// hours ago, although the server's time is right.
#[tokio::test]
async fn s35_a_clock_that_is_wrong_is_made_up_for_or_named() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let late = s3.client(Some(SystemTime::now() - Duration::from_hours(2)));
        late.list_objects_v2().bucket("backups").send().await.unwrap();

        let once = late
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .build();
        let list = aws_sdk_s3::Client::from_conf(once).list_objects_v2();
        let answer = list.bucket("backups").send().await.unwrap_err();
        let raw = answer.raw_response().expect("an answer");
        let (status, body) = (
            raw.status().as_u16(),
            raw.body().bytes().unwrap_or_default().to_vec(),
        );
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(text.contains("RequestTimeTooSkewed"), "{kind:?}: {status} {text}");

        let skewed = Faults::before(s3.address(), move |_, _| {
            Fault::Answer(status, Bytes::from(body.clone()))
        })
        .await
        .unwrap();
        let store = open_store(&s3.settings_at(skewed.address()));
        let error = store.put("x", Bytes::new()).await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains("set this host's clock"), "{error}");
        assert_eq!(
            skewed.seen().len(),
            1,
            "a retry does not fix a wrong clock, so there is none"
        );
    }
}
