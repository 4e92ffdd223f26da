#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::config::{ApiSettings, ArchiveSettings, Encryption};
use crate::model::{ClusterId, FirstStart, InitialState, MemberId, NodeName, RaftTerm, Role, testing};

fn settings() -> Settings {
    Settings {
        spec: testing::spec(&["n1"]),
        api: ApiSettings {
            listen: None,
            port: 2378,
            metrics: None,
            metrics_tls: false,
            fleet_lock: None,
            lock_groups: Vec::new(),
            insecure: false,
            tls: None,
        },
        store: None,
        store_copy: None,
        encryption: Encryption::default(),
        archive: ArchiveSettings {
            keep: 3,
            min_age: Duration::from_hours(24),
            max_age: Duration::from_hours(24),
        },
    }
}

fn assignment() -> Assignment {
    let node = NodeName::new("n1").unwrap();
    Assignment {
        generation: Generation(1),
        epoch: Epoch(1),
        node: node.clone(),
        member_id: MemberId(1),
        cluster_id: ClusterId(1),
        token: "prod-1-abc".to_owned(),
        role: Role::Founder,
        initial_state: InitialState::New,
        initial_cluster: [(node, vec!["http://n1:2380".to_owned()])].into(),
        data_dir: "/var/lib/etcd/default".into(),
        wal_dir: None,
        started: false,
        removed: false,
        listed: RaftTerm(0),
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: None,
        settings_digest: settings().spec.settings_digest(),
        etcd_version: None,
    }
}

type Change = fn(&mut Assignment);

#[test]
fn what_root_writes_and_what_not() {
    assert_eq!(check(&assignment(), &settings()), Ok(()));
    let table: Vec<(&str, Change, &str)> = vec![
        (
            "another node",
            |a| a.node = NodeName::new("n2").unwrap(),
            "for node n2",
        ),
        ("another directory", |a| a.data_dir = "/etc".into(), "\"/etc\""),
        (
            "a directory with a newline",
            |a| a.data_dir = "/var/lib/etcd/default\nX=1".into(),
            "configured is",
        ),
        (
            "a log elsewhere than configured",
            |a| a.wal_dir = Some("/disk/log".into()),
            "log in \"/disk/log\", configured is \"the data directory\"",
        ),
        ("no epoch", |a| a.epoch = Epoch(0), "no epoch"),
        (
            "a token with a newline",
            |a| a.token = "x\nETCD_NAME=y".into(),
            "its token",
        ),
        ("an empty token", |a| a.token.clear(), "its token"),
        (
            "without this node",
            |a| a.initial_cluster.clear(),
            "does not name this node",
        ),
        (
            "a URL with a comma",
            |a| url(a, "http://n1:2380,n2=http://x:2380"),
            "is not a URL",
        ),
        (
            "a URL with a quote",
            |a| url(a, "http://n1\":2380"),
            "is not a URL",
        ),
        ("a URL without a port", |a| url(a, "http://n1"), "is not a URL"),
        ("another scheme", |a| url(a, "unix://n1:2380"), "is not a URL"),
        (
            "other settings",
            |a| a.settings_digest = "x".into(),
            "systemctl reload etcd-agent",
        ),
    ];
    for (name, change, says) in table {
        let mut assignment = assignment();
        change(&mut assignment);
        let error = check(&assignment, &settings()).unwrap_err();
        assert!(error.contains(says), "{name}: {error}");
        assert_eq!(error.lines().count(), 1, "{name}");
    }
}

fn url(assignment: &mut Assignment, url: &str) {
    let node = assignment.node.clone();
    assignment.initial_cluster.insert(node, vec![url.to_owned()]);
}

#[test]
fn only_settings_of_etcd() {
    let one = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    assert_eq!(check_environment(&one("ETCD_QUOTA_BACKEND_BYTES", "1")), Ok(()));
    let experimental = one("ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK", "true");
    assert_eq!(check_environment(&experimental), Ok(()));
    for (name, value) in [
        ("LD_PRELOAD", "/tmp/x.so"),
        ("ETCD_NO_SUCH", "1"),
        ("ETCD_EXPERIMENTAL_NO_SUCH", "1"),
        ("ETCD_NAME", "a\nb"),
        ("PATH", "/tmp"),
    ] {
        assert!(check_environment(&one(name, value)).is_err(), "{name}");
    }
    let rendered = crate::render::environment(&assignment(), &settings().spec);
    assert_eq!(check_environment(&rendered), Ok(()));
}

#[test]
fn roots_own_files_and_those_that_etcd_has_and_nothing_takes_tls_away() {
    let files = |dir: &str| TlsFiles {
        cert_file: format!("{dir}/c").into(),
        key_file: format!("{dir}/k").into(),
        ca_file: format!("{dir}/ca").into(),
    };
    // `p`: files of peers, `l`: listens with them, `c`: of clients.
    let transport = |what: &str| Transport {
        client: what.contains('c').then(|| files("/etc/clients")),
        peer: what.contains('p').then(|| files("/etc/peers")),
        peer_listens: what.contains('l'),
    };
    for (configured, written, next, says) in [
        ("", "", "", ""),
        ("cpl", "", "p", ""),
        ("cpl", "p", "cpl", ""),
        ("cpl", "cpl", "cpl", ""),
        ("", "cpl", "cpl", ""),
        ("", "cpl", "cp", ""),
        ("", "cp", "", ""),
        ("cpl", "", "", ""),
        ("cpl", "cpl", "pl", "etcd.client_tls is configured"),
        ("cpl", "cpl", "cp", "listens for members over TLS already"),
        ("cpl", "cpl", "c", "etcd.peer_tls is configured"),
        ("", "", "c", "etcd.client_tls are neither configured nor"),
        ("", "", "p", "etcd.peer_tls are neither configured nor"),
        ("", "", "l", "without certificates"),
    ] {
        let mut settings = settings();
        settings.spec.etcd.client_tls = transport(configured).client;
        settings.spec.etcd.peer_tls = transport(configured).peer;
        let with = |what: &str| Assignment {
            transport: Some(transport(what)),
            ..assignment()
        };
        let written = crate::render::environment(&with(written), &settings.spec);
        let found = check_transport(&with(next), &settings, &written);
        let case = format!("{configured:?} is configured, {next:?} is assigned: {found:?}");
        match says {
            "" => assert_eq!(found, Ok(()), "{case}"),
            says => assert!(found.is_err_and(|why| why.contains(says)), "{case}"),
        }
    }
}
