//! The wanted size in the store: `control/etcd-cluster-spec`, as etcd-manager has it.
//!
//! Its jsonpb writes `{"memberCount":3,"etcdVersion":"3.5.16"}` and reads camelCase and `snake_case`, but
//! refuses fields that it does not know: so the agent adds no fields, and keeps those that exist.

use serde_json::{Map, Value};

use crate::model::{ClusterName, Fact};
use crate::ports::{Created, ObjectStore, PortError, PortResult, Replaced};

use super::layout::Layout;

/// Both spellings of the field, as a reader of jsonpb takes them.
const COUNT: [&str; 2] = ["memberCount", "member_count"];

/// The outcome of writing another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is in the store now.
    Done {
        /// What was there before.
        before: Option<usize>,
    },
    /// It was there already.
    Same,
    /// Another writer wrote at the same moment, and its object stays.
    Overtaken,
}

/// How many voters the store wants. Absent only if the store says that there is no such object, or the object
/// has no number. An object that cannot be understood is unknown.
///
/// # Errors
/// What the store answered.
pub async fn wanted_size(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Fact<usize>> {
    let key = Layout::of(store, cluster).spec();
    let text = match store.get_small(&key).await {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Fact::Absent),
        // This error concerns one object; it must not hide the backups or the epochs.
        Err(PortError::Permanent(why)) => return Ok(Fact::Unreachable(why)),
        Err(error) => return Err(error),
    };
    Ok(match parse(&text).and_then(|fields| count(&fields)) {
        Ok(Some(size)) => Fact::Known(size),
        Ok(None) => Fact::Absent,
        Err(why) => Fact::Unreachable(not_a_spec(store, &key, &why)),
    })
}

/// Writes how many voters are wanted, if the object is still what was read right before. Its other fields
/// stay.
///
/// # Errors
/// What the store answered; permanent when the object is there and cannot be understood; outcome unknown when
/// the answer was lost: writing the same again is safe.
pub async fn want_size(store: &dyn ObjectStore, cluster: &ClusterName, size: usize) -> PortResult<Written> {
    let key = Layout::of(store, cluster).spec();
    let Some((text, tag)) = store.get_tagged(&key).await? else {
        let body = with_count(Map::new(), size)?;
        return Ok(match store.create(&key, body.clone().into()).await? {
            Created::Created => Written::Done { before: None },
            Created::Exists(there) if there == body => Written::Same,
            Created::Exists(_) => Written::Overtaken,
        });
    };
    let wrong = |why: String| PortError::Permanent(not_a_spec(store, &key, &why));
    let fields = parse(&text).map_err(wrong)?;
    let before = count(&fields).map_err(wrong)?;
    if before == Some(size) {
        return Ok(Written::Same);
    }
    let body = with_count(fields, size)?;
    Ok(match store.replace(&key, body.into(), &tag).await? {
        Replaced::Done => Written::Done { before },
        Replaced::Changed => Written::Overtaken,
    })
}

fn not_a_spec(store: &dyn ObjectStore, key: &str, why: &str) -> String {
    format!(
        "{}: {key} is not a cluster spec like {{\"memberCount\":3}}: {why}",
        store.describe()
    )
}

pub(in crate::backup) fn parse(text: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// The number; jsonpb leaves zeros out and takes numbers in quotes too.
pub(in crate::backup) fn count(fields: &Map<String, Value>) -> Result<Option<usize>, String> {
    let mut found = COUNT.iter().filter_map(|name| fields.get(*name));
    let Some(value) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() {
        return Err("it has memberCount twice".to_owned());
    }
    let number = match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    let number = number.ok_or_else(|| format!("memberCount is {value}"))?;
    Ok((number > 0).then_some(number))
}

fn with_count(mut fields: Map<String, Value>, size: usize) -> PortResult<Vec<u8>> {
    for name in COUNT {
        fields.remove(name);
    }
    fields.insert(COUNT[0].to_owned(), size.into());
    serde_json::to_vec(&fields)
        .map_err(|error| PortError::Permanent(format!("cannot write the spec: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backup::testing::store_view;
    use crate::backup::testing::{EVER, cluster, store};

    const KEY: &str = "prod/control/etcd-cluster-spec";

    #[tokio::test]
    async fn what_etcd_manager_wrote_is_read_and_what_is_no_spec_is_unknown() {
        let rows: [(&str, Fact<usize>); 8] = [
            (r#"{"memberCount":3,"etcdVersion":"3.5.16"}"#, Fact::Known(3)),
            (r#"{"member_count":5,"more":{"x":1}}"#, Fact::Known(5)),
            (r#"{"memberCount":"7"}"#, Fact::Known(7)),
            (r#"{"etcdVersion":"3.5.16"}"#, Fact::Absent),
            (r#"{"memberCount":0}"#, Fact::Absent),
            ("{}", Fact::Absent),
            ("garbage", Fact::Unreachable(String::new())),
            (r#"{"memberCount":-3}"#, Fact::Unreachable(String::new())),
        ];
        for (text, expected) in rows {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path());
            assert_eq!(wanted_size(&store, &cluster()).await.unwrap(), Fact::Absent);
            store.put(KEY, Bytes::from(text)).await.unwrap();
            let found = wanted_size(&store, &cluster()).await.unwrap();
            match (&found, &expected) {
                (Fact::Unreachable(why), Fact::Unreachable(_)) => assert!(why.contains(KEY), "{why}"),
                _ => assert_eq!(found, expected, "{text}"),
            }
            // It never hides the rest of the store.
            assert_eq!(
                store_view(&store, &cluster(), || EVER).await.unwrap().size,
                found,
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn a_size_is_written_and_what_others_wrote_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let cluster = cluster();
        let want = |size| want_size(&store, &cluster, size);
        let read = || async { store.get_small(KEY).await.unwrap().unwrap() };
        assert_eq!(want(3).await.unwrap(), Written::Done { before: None });
        assert_eq!(read().await, r#"{"memberCount":3}"#);
        assert_eq!(want(3).await.unwrap(), Written::Same);
        let theirs = Bytes::from_static(br#"{"etcdVersion":"3.5.16","member_count":3,"tls":{"a":[1]}}"#);
        store.put(KEY, theirs).await.unwrap();
        assert_eq!(want(3).await.unwrap(), Written::Same);
        assert_eq!(want(5).await.unwrap(), Written::Done { before: Some(3) });
        assert_eq!(
            read().await,
            r#"{"etcdVersion":"3.5.16","memberCount":5,"tls":{"a":[1]}}"#
        );
        store.put(KEY, Bytes::from_static(b"garbage")).await.unwrap();
        assert!(matches!(want(3).await, Err(PortError::Permanent(_))));
        assert_eq!(read().await, "garbage");
    }

    #[tokio::test]
    async fn concurrent_writers_lose_no_write() {
        for round in 0..30 {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path());
            if round % 2 == 0 {
                store
                    .put(KEY, Bytes::from_static(br#"{"memberCount":1}"#))
                    .await
                    .unwrap();
            }
            let tries = [3, 5, 7, 9].map(|size| {
                let store = store.clone();
                tokio::spawn(async move { (size, want_size(&store, &cluster(), size).await.unwrap()) })
            });
            let mut done = Vec::new();
            for task in tries {
                let (size, written) = task.await.unwrap();
                if let Written::Done { before } = written {
                    done.push((before, size));
                }
            }
            // Each successful writer had read the value of the one before, so no write was lost.
            let mut last = (round % 2 == 0).then_some(1);
            while let Some(next) = done.iter().position(|(before, _)| *before == last) {
                last = Some(done.swap_remove(next).1);
            }
            assert!(done.is_empty(), "{done:?}");
            assert_eq!(
                wanted_size(&store, &cluster()).await.unwrap(),
                Fact::Known(last.unwrap())
            );
        }
    }
}
