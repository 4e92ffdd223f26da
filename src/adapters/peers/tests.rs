//! Tests with client and server in one process: mutual TLS, long polls, and the error texts when they fail.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::adapters::clock::SystemClock;
use crate::adapters::tls::testing::Authority;
use crate::http::Limits;
use crate::http::testing::{FakeAgent, Served, enquiry, name, nodes, quick, serve, serve_at, serve_known};
use crate::model::{Ballot, EnquireAnswer, EnquireReply, Epoch, RequestState, UnixMs};
use crate::ports::Clock;

const FRESH: Duration = Duration::ZERO;
/// The deadline for an event that must come, long enough for a slow machine.
const LONG: Duration = Duration::from_mins(2);

fn tls(authority: &Authority, dir: &Path, file: &str, names: &[&str]) -> Arc<Tls> {
    let files = authority.issue(dir, file, names, 2099);
    Tls::load_checking_every(files, FRESH).unwrap()
}

/// `n2`'s view of `n1` at this address.
fn peers_of_n2(address: SocketAddr, tls: Option<Arc<Tls>>) -> HttpPeers {
    let mut nodes = nodes();
    nodes.remove(&name("n3"));
    HttpPeers::start(&PeersConfig {
        me: name("n2"),
        cluster: ClusterName::new("prod").unwrap(),
        nodes,
        port: address.port(),
        tls,
    })
}

fn n1(peers: &HttpPeers) -> Fact<NodeStatus> {
    peers.last_seen().remove(&name("n1")).unwrap()
}

async fn until(
    peers: &HttpPeers,
    what: &str,
    wanted: impl Fn(&Fact<NodeStatus>) -> bool,
) -> Fact<NodeStatus> {
    let waited = timeout(LONG, async {
        loop {
            let seen = n1(peers);
            if wanted(&seen) {
                return seen;
            }
            peers.changed().await;
        }
    });
    let ended = waited.await;
    assert!(ended.is_ok(), "{what}: still {:?}", n1(peers));
    ended.unwrap()
}

struct Pair {
    _dir: TempDir,
    served: Served,
    peers: HttpPeers,
}

/// Serves `n1` with a certificate for `server_names`; the peer that asks it has a certificate for
/// `client_names`.
async fn pair(server_names: &[&str], client_names: &[&str]) -> Pair {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = tls(&authority, dir.path(), "n1", server_names);
    let client = tls(&authority, dir.path(), "n2", client_names);
    let served = serve(FakeAgent::new("n1"), Some(server), Limits::peers()).await;
    let peers = peers_of_n2(served.address, Some(client));
    Pair {
        _dir: dir,
        served,
        peers,
    }
}

#[tokio::test]
async fn a_change_is_seen_at_once_by_certificates_of_names_or_addresses() {
    for (server, client) in [(["n1"], ["n2"]), (["127.0.0.1"], ["n2.example.org"])] {
        let Pair { served, peers, _dir } = pair(&server, &client).await;
        until(&peers, "first answer", |seen| seen.known().is_some()).await;
        let asked = timeout(LONG, async {
            while !served.agent.is_asked() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        asked.await.unwrap();
        served.agent.change("news");
        until(&peers, "news", |seen| {
            seen.known().is_some_and(|status| status.text == "news")
        })
        .await;
        // The change, not the timeout, ended the pending long poll.
        assert!(served.agent.woken.load(Ordering::Relaxed) > 0);
        assert_eq!(peers.status(&name("n1")).await.unwrap().text, "news");
        let answer = peers.enquire(&name("n1"), &enquiry("n2")).await.unwrap();
        let from_n1 = |reply: &EnquireReply| reply.from == name("n1");
        assert!(
            matches!(&answer, EnquireAnswer::Reply(reply) if from_n1(reply)),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_silent_peer_is_no_news_and_a_killed_one_is() {
    let Pair { served, peers, _dir } = pair(&["n1"], &["n2"]).await;
    until(&peers, "first answer", |seen| seen.known().is_some()).await;
    // The report of the first answer may still be pending. After that the peer has no news, so it counts as
    // silent.
    let mut changes = 0;
    while timeout(Duration::from_millis(300), peers.changed()).await.is_ok() {
        changes += 1;
        assert!(changes < 3, "nothing has changed");
    }
    drop(served);
    let seen = until(&peers, "end", Fact::is_unreachable).await;
    assert!(format!("{seen:?}").contains("connection refused"), "{seen:?}");
}

#[tokio::test]
async fn a_peers_clock_is_known_while_it_answers() {
    let Pair { served, peers, _dir } = pair(&["n1"], &["n2"]).await;
    until(&peers, "first answer", |seen| seen.known().is_some()).await;
    let clocks = peers.clocks();
    // The clock of the tests' agent is in 1970.
    let now = i64::try_from(SystemClock.now().0).unwrap();
    let ahead = clocks[&name("n1")];
    assert!(ahead < 0 && (ahead + now).abs() < 60_000, "{clocks:?}");
    drop(served);
    until(&peers, "end", Fact::is_unreachable).await;
    assert_eq!(peers.clocks(), BTreeMap::new());
}

#[tokio::test]
async fn agents_started_together_find_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let peers = peers_of_n2(address, Some(tls(&authority, dir.path(), "n2", &["n2"])));
    until(&peers, "refused", |seen| format!("{seen:?}").contains("refused")).await;
    let server = tls(&authority, dir.path(), "n1", &["n1"]);
    let _served = serve_at(address, FakeAgent::new("n1"), Some(server), quick()).await;
    until(&peers, "found", |seen| seen.known().is_some()).await;
}

#[tokio::test]
async fn messages_of_others_are_refused() {
    let Pair { served, peers, _dir } = pair(&["n1"], &["n2"]).await;
    let prepare = |node: &str| Prepare {
        epoch: Epoch(1),
        ballot: Ballot {
            round: 1,
            node: name(node),
        },
        incarnation: enquiry("n2").incarnation,
        electorate_digest: String::new(),
    };
    let n1 = name("n1");
    let forged = peers.prepare(&n1, &prepare("n3")).await.unwrap_err();
    assert!(matches!(forged, PortError::Permanent(_)), "{forged}");
    assert!(
        forged
            .to_string()
            .contains("the message is from n3, but the certificate names n2"),
        "{forged}"
    );
    let forged = peers.enquire(&n1, &enquiry("n1")).await.unwrap_err();
    assert!(forged.to_string().contains("403"), "{forged}");
    assert_eq!(served.agent.writes.load(Ordering::Relaxed), 0);
    let busy = peers.prepare(&n1, &prepare("n2")).await.unwrap_err();
    assert!(matches!(busy, PortError::Retryable(_)), "{busy}");
    assert_eq!(served.agent.writes.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_certificate_of_no_node_gets_no_status() {
    let Pair {
        served: _served,
        peers,
        _dir,
    } = pair(&["n1"], &["grafana"]).await;
    let seen = until(&peers, "403", |seen| format!("{seen:?}").contains("403")).await;
    assert!(
        format!("{seen:?}").contains("the certificate names grafana, none of"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn each_certificate_problem_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = || tls(&ours, dir.path(), "good", &["n1", "n2"]);
    let bad_name = || tls(&ours, dir.path(), "name", &["n7"]);
    let foreign = || tls(&theirs, dir.path(), "foreign", &["n1", "n2"]);
    let expired = || Tls::load(ours.issue(dir.path(), "expired", &["n1", "n2"], 2021)).unwrap();
    // The foreign client trusts our authority, so that the server is the one to refuse.
    let foreign_client = || {
        let mut files = theirs.issue(dir.path(), "half", &["n2"], 2099);
        files.ca_file = ours.issue(dir.path(), "ca", &["x"], 2099).ca_file;
        Tls::load(files).unwrap()
    };
    let table = [
        (
            "server of another name",
            bad_name(),
            good(),
            "its certificate names n7, not n1",
        ),
        ("server expired", expired(), good(), "its certificate has expired"),
        (
            "server of another authority",
            foreign(),
            good(),
            "its certificate",
        ),
        (
            "client expired",
            good(),
            expired(),
            "it refused our certificate: it has expired",
        ),
        (
            "client of another authority",
            good(),
            foreign_client(),
            "it refused our certificate",
        ),
    ];
    for (what, server, client, expected) in table {
        let served = serve(FakeAgent::new("n1"), Some(server), quick()).await;
        let peers = peers_of_n2(served.address, Some(client));
        let seen = until(&peers, what, |seen| format!("{seen:?}").contains("certificate")).await;
        let text = match seen {
            Fact::Unreachable(text) => text,
            other => format!("{other:?}"),
        };
        assert!(text.contains(expected), "{what}: {text}");
        let call = peers.enquire(&name("n1"), &enquiry("n2")).await.unwrap_err();
        assert!(matches!(call, PortError::Retryable(_)), "{what}: {call:?}");
        assert_eq!(served.agent.writes.load(Ordering::Relaxed), 0, "{what}");
    }
}

#[tokio::test]
async fn no_certificate_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = tls(&Authority::new(), dir.path(), "n1", &["n1"]);
    let served = serve(FakeAgent::new("n1"), Some(server.clone()), quick()).await;
    let plain = peers_of_n2(served.address, None);
    let seen = until(&plain, "plain HTTP", |seen| {
        format!("{seen:?}").contains("agent of")
    })
    .await;
    assert!(seen.is_unreachable(), "{seen:?}");
    let insecure = serve(FakeAgent::new("n1"), None, quick()).await;
    let peers = peers_of_n2(insecure.address, Some(server));
    let seen = until(&peers, "no TLS there", |seen| {
        format!("{seen:?}").contains("agent of")
    })
    .await;
    assert!(seen.is_unreachable(), "{seen:?}");
}

#[tokio::test]
async fn another_node_or_cluster_behind_the_address_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = tls(&authority, dir.path(), "n1", &["n1", "n3"]);
    let served = serve(FakeAgent::new("n3"), Some(server), quick()).await;
    let peers = peers_of_n2(served.address, Some(tls(&authority, dir.path(), "n2", &["n2"])));
    let seen = until(&peers, "foreign", |seen| {
        format!("{seen:?}").contains("answers as")
    })
    .await;
    assert!(seen.is_unreachable());
    let asked = peers.status(&name("n1")).await.unwrap_err();
    assert!(
        asked
            .to_string()
            .contains("answers as n3 of cluster prod, expected n1"),
        "{asked}"
    );
}

#[tokio::test]
async fn rotated_certificates_are_used_and_old_connections_end() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = tls(&authority, dir.path(), "n1", &["n1"]);
    let served = serve(FakeAgent::new("n1"), Some(server.clone()), Limits::peers()).await;
    let client = tls(&authority, dir.path(), "n2", &["n2"]);
    let peers = peers_of_n2(served.address, Some(client));
    until(&peers, "before", |seen| seen.known().is_some()).await;
    // The client does not trust the authority of the new server certificate, so the connection must fail.
    Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
    served.agent.change("after");
    let seen = until(&peers, "after", Fact::is_unreachable).await;
    assert!(format!("{seen:?}").contains("certificate"), "{seen:?}");
    assert_eq!(server.generation(), 2);
    // After a return to the trusted authority, the connection recovers by itself.
    authority.issue(dir.path(), "n1", &["n1"], 2099);
    until(&peers, "healed", |seen| seen.known().is_some()).await;
}

#[tokio::test]
async fn an_outcome_is_unknown_only_after_the_request_was_out() {
    let Pair { served, peers, _dir } = pair(&["n1"], &["n2"]).await;
    let accept = Accept {
        ballot: Ballot {
            round: 1,
            node: name("n2"),
        },
        genesis: crate::model::Genesis {
            epoch: Epoch(1),
            cluster: ClusterName::new("prod").unwrap(),
            token: "t".to_owned(),
            members: BTreeMap::new(),
            origin: crate::model::Origin::Empty,
            electorate: BTreeMap::new(),
            cluster_id: crate::model::ClusterId(1),
            created: UnixMs(1),
            former: Vec::new(),
            etcd: None,
        },
        electorate_digest: String::new(),
    };
    let unknown = peers.accept(&name("n1"), &accept).await.unwrap_err();
    assert!(matches!(unknown, PortError::OutcomeUnknown(_)), "{unknown:?}");
    peers
        .learn(
            &name("n1"),
            &Learn {
                genesis: accept.genesis.clone(),
            },
        )
        .await
        .unwrap();
    drop(served);
    // The server may still get requests while it shuts down. Once it no longer listens, requests are never
    // sent.
    let refused = timeout(LONG, async {
        loop {
            match peers.accept(&name("n1"), &accept).await.unwrap_err() {
                PortError::OutcomeUnknown(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                refused => return refused,
            }
        }
    });
    let refused = refused.await.unwrap();
    assert!(matches!(refused, PortError::Retryable(_)), "{refused:?}");
    let stranger = peers.accept(&name("n8"), &accept).await.unwrap_err();
    assert!(matches!(stranger, PortError::Permanent(_)), "{stranger:?}");
}

/// Eight addresses use up all connections that are open to strangers. The connections of the cluster's own
/// nodes stay free.
#[tokio::test]
async fn f07_strangers_do_not_keep_a_peer_out() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = tls(&authority, dir.path(), "n1", &["n1"]);
    let client = tls(&authority, dir.path(), "n2", &["n2"]);
    let limits = Limits {
        handshake: Duration::from_mins(1),
        ..Limits::peers()
    };
    let served = serve_known(FakeAgent::new("n1"), Some(server), limits).await;
    let mut held = Vec::new();
    for last in 2..=9 {
        for _ in 0..16 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, last], 0).into()).unwrap();
            held.push(socket.connect(served.address).await.unwrap());
        }
    }
    let peers = peers_of_n2(served.address, Some(client));
    until(&peers, "an answer", |seen| seen.known().is_some()).await;
    assert_eq!(held.len(), 128);
}

#[tokio::test]
async fn h09_what_a_person_asked_for_elsewhere_is_taken_over_and_followed() {
    let peer = serve(FakeAgent::new("n1"), None, quick()).await;
    let peers = peers_of_n2(peer.address, None);
    let n1 = name("n1");
    let view = peers.submit(&n1, &OperatorRequest::Backup).await.unwrap();
    assert_eq!((view.id, view.state), (1, RequestState::Pending));
    let view = peers.request(&n1, 1).await.unwrap();
    assert_eq!(
        (view.state, view.message.as_str()),
        (RequestState::Done, "b (revision 7)")
    );
    let forgotten = peers.request(&n1, 2).await.unwrap_err();
    assert!(matches!(forgotten, PortError::Permanent(_)), "{forgotten}");
    // Requests that open an epoch, or remove something, are only for the node where a person made them.
    let before = peer.agent.writes.load(Ordering::Relaxed);
    for other in [
        OperatorRequest::Prune,
        OperatorRequest::Bootstrap {
            without: std::collections::BTreeSet::new(),
            empty: true,
        },
    ] {
        let refused = peers.submit(&n1, &other).await.unwrap_err();
        assert!(refused.to_string().contains("not for another node"), "{refused}");
    }
    assert_eq!(peer.agent.writes.load(Ordering::Relaxed), before);
}
