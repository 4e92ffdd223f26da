//! The keys of etcd's v2 API that a member holds: those in its newest snapshot of raft that the log mentions, and those
//! that the log has put since. etcd need not serve the API for that.
//!
//! Source: `Save` in etcd's `store/store.go` (3.4) and `server/etcdserver/api/v2store/store.go` (3.5) for the JSON in a
//! snapshot, `api/snap/snappb/snap.proto` for the file, and `applyV2Request` for the log. The keys of clients are below
//! `/1` (`StoreKeysPrefix`), etcd's own below `/0`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use prost::Message;
use serde::Deserialize;

use super::v2::{Entry, after_snapshot};
use super::{WalError, crc32c};
use crate::model::V2Names;

/// The directory of the clients' keys in etcd's store.
const KEYS: &str = "/1";
/// A larger snapshot is not read, in bytes. etcd keeps all of it in memory.
const MOST_BYTES: u64 = 512 << 20;
/// How many hidden names are reported at most.
const MOST_HIDDEN: usize = 1000;

/// `snappb.Snapshot`: the file.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(uint32, tag = "1")]
    crc: u32,
    #[prost(bytes = "vec", tag = "2")]
    data: Vec<u8>,
}

/// The part of `raftpb.Snapshot` that is the store, as JSON.
#[derive(Clone, PartialEq, Message)]
struct Content {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

/// The part of the store that is its tree.
#[derive(Deserialize)]
struct Store {
    #[serde(rename = "Root")]
    root: Node,
}

/// A node of the tree. A key has no children, not even none of them.
#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Path")]
    path: String,
    #[serde(rename = "Children")]
    children: Option<BTreeMap<String, Node>>,
}

/// The part of `etcdserverpb.Request` that says what it does to which key.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "2")]
    method: String,
    #[prost(string, tag = "3")]
    path: String,
    #[prost(bool, tag = "5")]
    dir: bool,
    #[prost(string, tag = "6")]
    previous_value: String,
    #[prost(uint64, tag = "7")]
    previous_index: u64,
    /// Not used. With it, the text `POST` is no message of this kind, as it is none for etcd.
    #[prost(bool, tag = "10")]
    wait: bool,
    #[prost(bool, tag = "12")]
    recursive: bool,
}

/// The part of `InternalRaftRequest` that is a request of v2.
#[derive(Clone, PartialEq, Message)]
struct Wrapped {
    #[prost(message, optional, tag = "2")]
    v2: Option<Request>,
}

/// What is there of the log in `dir` and the snapshots of raft in `snap`. etcd may be writing to them.
///
/// # Errors
/// [`WalError::Io`] when they could not be read, [`WalError::Content`] when they are damaged: nothing is known.
pub(in crate::unit) fn names(dir: &Path, snap: &Path) -> Result<V2Names, WalError> {
    let mut requests = Vec::new();
    let mut unknown = None;
    let newest = after_snapshot(dir, snap, &mut |entry| match request(&entry) {
        Ok(None) => {}
        Ok(Some(request)) => requests.push((entry.index, request)),
        Err(()) => unknown = Some(entry.index),
    })?;
    if let Some(index) = unknown.filter(|index| *index > newest) {
        return Err(WalError::Content(format!("entry {index} of the log is garbage")));
    }
    let mut keys = if newest == 0 {
        BTreeSet::new()
    } else {
        saved(snap, newest)?
    };
    let mut in_log = false;
    for (_, request) in requests.iter().filter(|(index, _)| *index > newest) {
        in_log |= !is_etcds_own(request);
        apply(&mut keys, request);
    }
    let hidden: BTreeSet<String> = keys.iter().flat_map(|key| hidden_parts(key)).collect();
    if hidden.len() > MOST_HIDDEN {
        return Err(WalError::Content(format!(
            "there are {} hidden names, expected at most {MOST_HIDDEN}",
            hidden.len()
        )));
    }
    Ok(V2Names {
        keys: keys.len() as u64,
        example: keys.first().cloned(),
        hidden,
        in_log,
        ..V2Names::default()
    })
}

/// The request of v2 in an entry. An error if it is not understood.
fn request(entry: &Entry) -> Result<Option<Request>, ()> {
    if entry.kind != 0 || entry.data.is_empty() {
        return Ok(None);
    }
    // etcd 3.4 and 3.5 write it without a wrapper. Its method is then where the wrapper has a message, which it is not.
    if let Ok(wrapped) = Wrapped::decode(entry.data.as_slice()) {
        return Ok(wrapped.v2);
    }
    Request::decode(entry.data.as_slice()).map(Some).map_err(drop)
}

/// True for what etcd itself writes about its members and the cluster, which etcd 3.6 still reads.
fn is_etcds_own(request: &Request) -> bool {
    request.method == "PUT" && (request.path.starts_with("/0/members/") || request.path == "/0/version")
}

/// Applies a request as far as the log alone shows it. In doubt a key stays.
fn apply(keys: &mut BTreeSet<String>, request: &Request) {
    let Some(name) = name_of(&request.path) else {
        return;
    };
    match request.method.as_str() {
        // etcd gives the new key a name below this directory.
        "POST" => _ = keys.insert(format!("{}/?", name.trim_end_matches('/'))),
        "PUT" if !request.dir => _ = keys.insert(name.to_owned()),
        "DELETE" if request.previous_index == 0 && request.previous_value.is_empty() => {
            let below = format!("{}/", name.trim_end_matches('/'));
            keys.retain(|key| key != name && !(request.recursive && key.starts_with(&below)));
        }
        _ => {}
    }
}

/// The name that clients use for a path of the store, if it is one of theirs.
fn name_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix(KEYS)?;
    name.starts_with('/').then_some(name)
}

/// The keys in the snapshot of this index.
fn saved(snap: &Path, index: u64) -> Result<BTreeSet<String>, WalError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| WalError::Io { path, source }
    };
    let suffix = format!("-{index:016x}.snap");
    let mut path = None;
    for entry in fs::read_dir(snap).map_err(failed(snap))? {
        let entry = entry.map_err(failed(snap))?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.ends_with(&suffix))
        {
            path = Some(entry.path());
        }
    }
    let path = path.ok_or_else(|| WalError::Content(format!("the snapshot of index {index} is gone")))?;
    let mut bytes = Vec::new();
    let file = fs::File::open(&path).map_err(failed(&path))?;
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed(&path))?;
    let wrong = |why: &str| WalError::Content(format!("{}: {why}", path.display()));
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong("it is larger than 512 MiB"));
    }
    let file = File::decode(bytes.as_slice()).map_err(|_| wrong("it is garbage"))?;
    if crc32c(0, &file.data) != file.crc {
        return Err(wrong("its checksum is wrong"));
    }
    let content = Content::decode(file.data.as_slice()).map_err(|_| wrong("its content is garbage"))?;
    let store: Store = serde_json::from_slice(&content.data).map_err(|error| wrong(&error.to_string()))?;
    let mut keys = BTreeSet::new();
    collect(store.root, &mut keys);
    Ok(keys)
}

fn collect(node: Node, keys: &mut BTreeSet<String>) {
    match node.children {
        Some(children) => children.into_values().for_each(|child| collect(child, keys)),
        None => keys.extend(name_of(&node.path).map(str::to_owned)),
    }
}

/// The name up to each of its hidden parts. A directory lists none of them, a hidden one neither.
fn hidden_parts(name: &str) -> impl Iterator<Item = String> {
    name.match_indices("/_").filter_map(|(at, _)| {
        let end = name
            .get(at + 1..)?
            .find('/')
            .map_or(name.len(), |slash| at + 1 + slash);
        name.get(..end).map(str::to_owned)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::Log;
    use super::*;

    const NORMAL: i32 = 0;

    fn asked(method: &str, path: &str) -> Request {
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            ..Request::default()
        }
    }

    /// A request as a client's member writes it.
    fn bare(request: &Request) -> Vec<u8> {
        [&[0x08, 0x07], request.encode_to_vec().as_slice()].concat()
    }

    fn json(children: &str) -> String {
        format!(
            r#"{{"Root":{{"Path":"/","CreatedIndex":0,"Value":"","Children":{{
            "0":{{"Path":"/0","Children":{{"version":{{"Path":"/0/version","Value":"3.5.0","Children":null}}}}}},
            "1":{{"Path":"/1","Children":{{{children}}}}}}}}},"WatcherHub":{{}},"CurrentIndex":9}}"#
        )
    }

    fn snap(json: &str) -> Vec<u8> {
        let data = Content { data: json.into() }.encode_to_vec();
        let crc = crc32c(0, &data);
        File { crc, data }.encode_to_vec()
    }

    fn found(log: &Log) -> V2Names {
        log.write();
        names(&log.wal(), &log.snap()).unwrap()
    }

    #[test]
    fn keys_of_v2_are_found_in_the_snapshot_and_in_the_log() {
        let published = bare(&asked("PUT", "/0/members/9/attributes"));
        let log = Log::new().entry(1, NORMAL, &published);
        assert_eq!(found(&log), V2Names::default(), "etcd's own");

        let log = log.entry(2, NORMAL, &bare(&asked("PUT", "/1/b")));
        let one = found(&log);
        assert_eq!(
            (one.keys, one.example.as_deref(), one.in_log),
            (1, Some("/b"), true)
        );

        let tree = r#""a":{"Path":"/1/a","Children":{
            "_h":{"Path":"/1/a/_h","Children":{"x":{"Path":"/1/a/_h/x","Value":"1","Children":null}}}}},
            "empty":{"Path":"/1/empty","Children":{}}"#;
        let log = log.snapshot_of(2, &snap(&json(tree)));
        let saved = found(&log);
        assert_eq!(
            (saved.keys, saved.in_log),
            (1, false),
            "/b is in no snapshot: {saved:?}"
        );
        assert_eq!(saved.hidden, BTreeSet::from(["/a/_h".to_owned()]));

        let put = Wrapped {
            v2: Some(asked("PUT", "/1/c/d")),
        }
        .encode_to_vec();
        let log = log
            .entry(3, NORMAL, &put)
            .entry(4, NORMAL, &bare(&asked("POST", "/1/queue")));
        let all = found(&log);
        assert_eq!((all.keys, all.in_log), (3, true), "{all:?}");

        let recursive = Request {
            recursive: true,
            ..asked("DELETE", "/1/a")
        };
        let guarded = Request {
            previous_value: "no".into(),
            ..asked("DELETE", "/1/c/d")
        };
        let log = log
            .entry(5, NORMAL, &bare(&recursive))
            .entry(6, NORMAL, &bare(&guarded));
        let left = found(&log);
        assert_eq!((left.keys, left.hidden.len()), (2, 0), "{left:?}");
    }

    #[test]
    fn keys_of_v2_are_not_known_if_a_file_is_damaged() {
        let whole = snap(&json(""));
        for (what, bytes) in [
            (
                "its checksum is wrong",
                [&whole[..whole.len() - 1], b" "].concat(),
            ),
            ("it is garbage", vec![0xff; 9]),
            ("EOF", snap("{")),
        ] {
            let log = Log::new().entry(1, NORMAL, &[]).snapshot_of(1, &bytes);
            log.write();
            let error = names(&log.wal(), &log.snap()).unwrap_err().to_string();
            assert!(error.contains(what), "{what}: {error}");
        }
        let garbage = Log::new().entry(1, NORMAL, &[0xff]);
        garbage.write();
        let error = names(&garbage.wal(), &garbage.snap()).unwrap_err().to_string();
        assert!(error.contains("entry 1"), "{error}");
    }

    #[test]
    fn a_name_is_hidden_at_each_of_its_hidden_parts() {
        let table: [(&str, &[&str]); 4] = [
            ("/a/b", &[]),
            ("/a_/b", &[]),
            ("/_a", &["/_a"]),
            ("/a/_b/c/_d", &["/a/_b", "/a/_b/c/_d"]),
        ];
        for (name, expected) in table {
            assert_eq!(hidden_parts(name).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
