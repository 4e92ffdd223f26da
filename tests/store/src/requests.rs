//! Requests that every store has to answer.

use bytes::Bytes;
use etcd_agent::ports::{Created, ObjectStore};
use futures::TryStreamExt;

use crate::noise;

pub async fn read(store: &dyn ObjectStore, key: &str) -> Vec<u8> {
    let stream = store.get(key).await.unwrap().unwrap();
    let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
    chunks.concat()
}

/// Makes an upload in three parts, a small object and a conditional one, and then reads, lists and deletes
/// all of them.
pub async fn use_it(store: &dyn ObjectStore) {
    let body = noise((17 << 20) + 5);
    let mut upload = store.upload("a/big").await.unwrap();
    upload.write(body.clone()).await.unwrap();
    upload.complete().await.unwrap();
    store.put("a/small", Bytes::from_static(b"small")).await.unwrap();
    let first = store
        .create("a/once", Bytes::from_static(b"first"))
        .await
        .unwrap();
    assert_eq!(first, Created::Created);
    let second = store
        .create("a/once", Bytes::from_static(b"second"))
        .await
        .unwrap();
    assert_eq!(second, Created::Exists(Bytes::from_static(b"first")));
    assert!(read(store, "a/big").await == body.as_ref());
    assert_eq!(store.get_small("a/small").await.unwrap().unwrap(), "small");
    assert_eq!(store.get_small("a/none").await.unwrap(), None);
    let keys: Vec<String> = store
        .list("a/")
        .await
        .unwrap()
        .into_iter()
        .map(|o| o.key)
        .collect();
    assert_eq!(keys, ["a/big", "a/once", "a/small"]);
    for key in keys {
        store.delete(&key).await.unwrap();
    }
    assert_eq!(store.list("").await.unwrap(), []);
}
