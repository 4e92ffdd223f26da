//! A watch of all keys that delivers whole revisions.

use std::time::Duration;

use futures::{StreamExt, stream};
use hyper::http::uri::PathAndQuery;
use prost::{DecodeError, Message};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::client::Grpc;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::channel::Connector;
use super::errors::{Kind, no_answer, status_error};
use super::proto::{KeyValue, WatchCreate, WatchEvent, WatchRequest, WatchResponse};
use crate::model::{ClusterId, KeyChange, Revision, RevisionChanges, Watched};
use crate::ports::{PortError, PortResult, WatchStream};

/// How long etcd may take to open a watch. It opens the watch before it sends the first event.
const OPEN_WATCH: Duration = Duration::from_secs(10);
/// `mvccpb.Event.EventType.DELETE`.
const DELETE: i32 = 1;

/// The limit for one message of a watch if etcd's `max-request-bytes` is unknown or small.
const USUAL_BYTES: u64 = 32 * 1024 * 1024;
/// The upper bound of that limit for any `max-request-bytes`: an increment that holds such a message can
/// still be read.
const MOST_BYTES: u64 = 60 * 1024 * 1024;
/// Twice what etcd adds to `max-request-bytes` for the limit of its fragments (`grpcOverheadBytes` in its
/// `config.go`).
const OVERHEAD_BYTES: u64 = 1024 * 1024;

/// How large a message of a watch may be. etcd splits a response that is larger than a request can be, but
/// never a single change.
pub(super) fn limit(max_request_bytes: Option<u64>) -> usize {
    let wanted = max_request_bytes.unwrap_or(0).saturating_add(OVERHEAD_BYTES);
    usize::try_from(wanted.clamp(USUAL_BYTES, MOST_BYTES)).unwrap_or(usize::MAX)
}

/// Opens the watch; returns once etcd has confirmed it.
pub(super) async fn open(
    connector: &Connector,
    what: String,
    from: Revision,
    limit: usize,
) -> PortResult<WatchStream> {
    let channel = connector
        .watch_channel()
        .map_err(|why| PortError::Retryable(format!("{what}: {why}")))?;
    let start = i64::try_from(from.0).unwrap_or(i64::MAX);
    let create = WatchRequest {
        // A zero byte in both fields means all keys.
        create: Some(WatchCreate {
            key: vec![0],
            range_end: vec![0],
            start_revision: start,
            // Keeps responses below the message limit, however much a transaction wrote.
            fragment: true,
        }),
    };
    let end = CancellationToken::new();
    let ends = end.clone().cancelled_owned();
    // The guard cancels the watch if the caller gives up before etcd has answered.
    let end = end.drop_guard();
    let opened = async {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(limit);
        grpc.ready()
            .await
            .map_err(|error| tonic::Status::from_error(Box::new(error)))?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        // The watch lasts as long as its request stream stays open.
        let requests = stream::once(async { create })
            .chain(stream::pending())
            .take_until(ends);
        grpc.streaming(Request::new(requests), path, codec).await
    };
    let responses = match timeout(OPEN_WATCH, opened).await {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(status)) => return Err(status_error(&what, Kind::Read, &status)),
        Err(_) => {
            connector.reset_watch();
            return Err(no_answer(&what, Kind::Read, OPEN_WATCH));
        }
    };
    let watch = Watch {
        responses,
        pending: None,
        over: false,
        what,
        _end: end,
    };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        Ok(watch.next().await?.map(|watched| (watched, watch)))
    })))
}

struct Watch {
    responses: Streaming<WatchResponse>,
    /// The last revision received while a response arrives in fragments: more changes of it may follow.
    pending: Option<RevisionChanges>,
    over: bool,
    what: String,
    /// Dropping this cancels the watch in etcd.
    _end: DropGuard,
}

impl Watch {
    async fn next(&mut self) -> PortResult<Option<Watched>> {
        if self.over {
            return Ok(None);
        }
        loop {
            let answer = self.responses.message().await;
            let answer = answer.map_err(|status| status_error(&self.what, Kind::Read, &status))?;
            let Some(mut response) = answer else {
                return Err(PortError::Retryable(format!("{}: etcd ended it", self.what)));
            };
            if response.compact_revision > 0 {
                self.over = true;
                let revision = u64::try_from(response.compact_revision).unwrap_or(0);
                return Ok(Some(Watched::Compacted(Revision(revision))));
            }
            if response.canceled {
                let why = response.cancel_reason;
                return Err(PortError::Permanent(format!(
                    "{}: etcd refused it: {why}",
                    self.what
                )));
            }
            let header = response.header.take().unwrap_or_default();
            let changes = self
                .take(&response)
                .map_err(|error| PortError::Retryable(format!("{}: {error}", self.what)))?;
            if !changes.is_empty() {
                return Ok(Some(Watched::Revisions {
                    changes,
                    at: Revision(u64::try_from(header.revision).unwrap_or(0)),
                    of: ClusterId(header.cluster_id),
                }));
            }
        }
    }

    /// The revisions that are complete after this response.
    fn take(&mut self, response: &WatchResponse) -> Result<Vec<RevisionChanges>, DecodeError> {
        let mut whole: Vec<RevisionChanges> = self.pending.take().into_iter().collect();
        for event in &response.events {
            let (revision, change) = changed(event)?;
            match whole.last_mut() {
                Some(last) if last.revision == revision => last.changes.push(change),
                _ => whole.push(RevisionChanges {
                    revision,
                    changes: vec![change],
                }),
            }
        }
        if response.fragment {
            self.pending = whole.pop();
        }
        Ok(whole)
    }
}

fn changed(event: &WatchEvent) -> Result<(Revision, KeyChange), DecodeError> {
    let kv = KeyValue::decode(event.kv.clone())?;
    let revision = Revision(u64::try_from(kv.mod_revision).unwrap_or(0));
    let deleted = event.kind == DELETE;
    let change = if deleted {
        // etcd keeps only the name of a deleted key (`tombstone` in its `mvcc/kvstore_txn.go`).
        let name = KeyValue {
            key: kv.key,
            ..KeyValue::default()
        };
        KeyChange {
            deleted,
            stored: name.encode_to_vec(),
            lease: 0,
        }
    } else {
        KeyChange {
            deleted,
            stored: event.kv.to_vec(),
            lease: kv.lease,
        }
    };
    Ok((revision, change))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Key `k`, created at 2, modified at 3, version 2, value `v`, lease 9.
    const PUT: &[u8] = &[10, 1, b'k', 16, 2, 24, 3, 32, 2, 42, 1, b'v', 48, 9];

    fn event(kind: i32, kv: &'static [u8]) -> WatchEvent {
        WatchEvent { kind, kv: kv.into() }
    }

    #[test]
    fn a_put_is_stored_as_etcd_does_and_a_deletion_is_its_key() {
        let (revision, change) = changed(&event(0, PUT)).unwrap();
        assert_eq!(revision, Revision(3));
        assert_eq!((change.deleted, change.lease), (false, 9));
        assert_eq!(change.stored, PUT);
        let (revision, change) = changed(&event(DELETE, &[10, 1, b'k', 24, 4])).unwrap();
        assert_eq!(revision, Revision(4));
        assert_eq!((change.deleted, change.lease), (true, 0));
        assert_eq!(change.stored, [10, 1, b'k']);
    }

    #[test]
    fn c06_the_limit_of_a_message_follows_the_setting_and_has_a_bound() {
        for (setting, expected) in [
            (None, 32 << 20),
            (Some(1_572_864), 32 << 20),
            (Some(10 << 20), 32 << 20),
            (Some(40 << 20), 41 << 20),
            (Some(u64::MAX), 60 << 20),
        ] {
            assert_eq!(limit(setting), expected, "{setting:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for cut in [1, 2, 4, PUT.len() - 1] {
            assert!(changed(&event(0, &PUT[..cut])).is_err(), "{cut}");
        }
    }
}
