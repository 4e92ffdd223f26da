use super::*;
use crate::backup::take_full;
use crate::backup::testing::store_view;
use crate::backup::testing::{EVER, cluster, genesis, store};
use crate::backup::testing::{etcd, meta};
use crate::backup::trailer::snapshot;
use bytes::Bytes;

#[tokio::test]
async fn an_epoch_is_recorded_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert_eq!(newest_epoch(&store, &cluster()).await.unwrap(), None);
    let (a, b) = (genesis(1, "a"), genesis(1, "b"));
    assert_eq!(
        record_epoch(&store, &cluster(), &a).await.unwrap(),
        Recorded::Created
    );
    assert_eq!(
        record_epoch(&store, &cluster(), &a).await.unwrap(),
        Recorded::Created
    );
    let other = record_epoch(&store, &cluster(), &b).await.unwrap();
    assert_eq!(other, Recorded::Exists(Box::new(a)));
    for epoch in [2, 10, 9] {
        record_epoch(&store, &cluster(), &genesis(epoch, "c"))
            .await
            .unwrap();
    }
    // Other objects next to the records.
    for other in [
        "prod/control/epochs/README",
        "prod/control/epochs/11/x",
        "prod/control/x",
    ] {
        store.put(other, Bytes::new()).await.unwrap();
    }
    let newest = newest_epoch(&store, &cluster()).await.unwrap();
    assert_eq!(newest, Some(genesis(10, "c")));
    let backup = take_full(&etcd(snapshot(2)), &store, &meta(1000), |_| {})
        .await
        .unwrap();
    let view = store_view(&store, &cluster(), || EVER).await.unwrap();
    assert_eq!(view.genesis, newest);
    assert_eq!(view.newest_backup, Some(backup));
    assert!(view.conditional_writes);
}

#[tokio::test]
async fn an_unreadable_record_is_an_error_and_not_absent() {
    let foreign = serde_json::to_string(&genesis(2, "x")).unwrap();
    for text in ["", "{}", "garbage", &foreign] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        record_epoch(&store, &cluster(), &genesis(1, "a")).await.unwrap();
        store
            .put("prod/control/epochs/3", Bytes::from(text.to_owned()))
            .await
            .unwrap();
        let error = newest_epoch(&store, &cluster()).await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains("prod/control/epochs/3"), "{error}");
        assert!(record_epoch(&store, &cluster(), &genesis(3, "b")).await.is_err());
        assert!(store_view(&store, &cluster(), || EVER).await.is_err());
    }
}
