#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::model::{
    ClusterId, Epoch, FirstStart, Generation, InitialState, MemberId, RaftTerm, Role, testing,
};

fn tls(dir: &str) -> TlsFiles {
    TlsFiles {
        cert_file: format!("{dir}/node.crt").into(),
        key_file: format!("{dir}/node.key").into(),
        ca_file: format!("{dir}/ca.crt").into(),
    }
}

fn spec(nodes: &[&str], secure: bool) -> Spec {
    let mut spec = testing::spec(nodes);
    spec.etcd.client_tls = secure.then(|| tls("/etc/etcd/tls"));
    spec.etcd.peer_tls = secure.then(|| tls("/etc/etcd/peer-tls"));
    spec
}

fn assignment(spec: &Spec) -> Assignment {
    Assignment {
        generation: Generation(4),
        epoch: Epoch(2),
        node: spec.node.clone(),
        member_id: MemberId(1),
        cluster_id: ClusterId(2),
        token: "prod-2-5f3a9c01".to_owned(),
        role: Role::Founder,
        initial_state: InitialState::New,
        initial_cluster: spec
            .nodes
            .keys()
            .map(|n| (n.clone(), vec![spec.peer_url(n).unwrap()]))
            .collect(),
        data_dir: spec.etcd.data_dir.clone(),
        wal_dir: spec.etcd.wal_dir.clone(),
        started: false,
        removed: false,
        listed: RaftTerm(0),
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: None,
        settings_digest: spec.settings_digest(),
        etcd_version: None,
    }
}

#[test]
fn three_nodes_with_tls() {
    let mut spec = spec(&["n1", "n2", "n3"], true);
    spec.etcd
        .settings
        .insert("quota-backend-bytes".into(), "8589934592".into());
    spec.etcd.settings.insert("unsafe-no-fsync".into(), "true".into());
    let assignment = assignment(&spec);
    insta::assert_snapshot!("env_three_tls", env_file(&assignment, &spec).unwrap());
    insta::assert_snapshot!("flags_three_tls", flags(&assignment, &spec).unwrap());
    let env_path = Path::new("/var/lib/etcd-agent/etcd.env");
    insta::assert_snapshot!("dropin_three_tls", drop_in(&assignment, &spec, env_path).unwrap());
}

#[test]
fn one_node_without_tls_and_a_pinned_binary() {
    let mut spec = spec(&["n1"], false);
    spec.etcd.binary = Some("/opt/etcd-v3.6.16/etcd".into());
    let mut assignment = assignment(&spec);
    assignment.initial_state = InitialState::Existing;
    insta::assert_snapshot!("env_one", env_file(&assignment, &spec).unwrap());
    let env_path = Path::new("/var/lib/etcd-agent/etcd.env");
    insta::assert_snapshot!("dropin_one", drop_in(&assignment, &spec, env_path).unwrap());
}

#[test]
fn a_log_that_is_elsewhere() {
    let mut spec = spec(&["n1"], false);
    let before = running_digest(&assignment(&spec), &spec);
    spec.etcd.wal_dir = Some("/disk/etcd".into());
    let assignment = assignment(&spec);
    assert_eq!(environment(&assignment, &spec)["ETCD_WAL_DIR"], "/disk/etcd");
    assert_ne!(
        running_digest(&assignment, &spec),
        before,
        "it is read at each start"
    );
    let text = drop_in(&assignment, &spec, Path::new("/e")).unwrap();
    assert!(
        text.contains("\nRequiresMountsFor=/var/lib/etcd/default /disk/etcd\n"),
        "{text}"
    );
    assert!(!text.contains("UnsetEnvironment=ETCD_WAL_DIR"), "{text}");
}

#[test]
fn settings_never_replace_what_the_agent_sets() {
    let mut spec = spec(&["n1"], false);
    spec.etcd.settings.insert("name".into(), "intruder".into());
    let assignment = assignment(&spec);
    assert_eq!(environment(&assignment, &spec)["ETCD_NAME"], "n1");
}

#[test]
fn what_the_environment_sets_is_never_unset() {
    for secure in [false, true] {
        let spec = spec(&["n1", "n2"], secure);
        let set = environment(&assignment(&spec), &spec);
        assert!(unset::not_ours(&set).all(|name| !set.contains_key(name)));
        assert_eq!(
            unset::not_ours(&set).any(|name| name == "ETCD_CERT_FILE"),
            !secure
        );
    }
}

#[test]
fn values_are_escaped() {
    let rows = [
        ("plain", r#""plain""#),
        (r#"a "quoted" word"#, r#""a \"quoted\" word""#),
        (r"C:\dir", r#""C:\\dir""#),
        ("$HOME and `id`", r#""\$HOME and \`id\`""#),
        ("it's # no comment; %n", r#""it's # no comment; %n""#),
        ("", r#""""#),
    ];
    for (value, expected) in rows {
        assert_eq!(env_value("x", value).unwrap(), expected, "{value}");
    }
    for bad in ["a\nETCD_NAME=b", "a\rb", "a\0b", "a\u{7f}"] {
        assert!(env_value("x", bad).is_err(), "{bad:?}");
        assert!(shell_word("x", bad).is_err(), "{bad:?}");
    }
    assert_eq!(shell_word("x", "--a=b c").unwrap(), "'--a=b c'");
    assert_eq!(shell_word("x", "--a=it's").unwrap(), r"'--a=it'\''s'");
}

#[test]
fn a_binary_that_a_unit_file_cannot_carry_is_refused() {
    for bad in ["etcd", "/opt/my etcd", "/opt/%n/etcd", "/opt/a\nExecStartPost=/x"] {
        let mut spec = spec(&["n1"], false);
        spec.etcd.binary = Some(bad.into());
        let assignment = assignment(&spec);
        assert!(drop_in(&assignment, &spec, Path::new("/e")).is_err(), "{bad:?}");
    }
}

/// The value that systemd reads from a double-quoted string (`src/basic/env-file.c`, state
/// `DOUBLE_QUOTE_VALUE`).
fn systemd_reads(line: &str) -> Option<String> {
    let mut chars = line.strip_prefix('"')?.chars();
    let mut out = String::new();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(out),
            '\\' => match chars.next()? {
                c @ ('"' | '\\' | '`' | '$') => out.push(c),
                '\n' => {}
                c => out.extend(['\\', c]),
            },
            c => out.push(c),
        }
    }
}

proptest! {
    #[test]
    fn systemd_reads_back_what_was_written(value in "[^\\p{Cc}]{0,40}") {
        let written = env_value("x", &value).unwrap();
        prop_assert_eq!(systemd_reads(&written), Some(value));
    }

    #[test]
    fn escapes_survive_in_any_mix(value in r#"["\\`$a ]{0,12}"#) {
        let written = env_value("x", &value).unwrap();
        prop_assert_eq!(systemd_reads(&written), Some(value));
    }
}

#[test]
fn a_node_that_moved_has_other_settings() {
    let here = spec(&["n1", "n2", "n3"], true);
    let mut there = here.clone();
    there.nodes.insert(there.node.clone(), "10.9.9.9".to_owned());
    let (before, mut after) = (assignment(&here), assignment(&there));
    assert_ne!(
        running_digest(&before, &here),
        running_digest(&after, &there),
        "a restart changes something"
    );
    let set = environment(&after, &there);
    assert_eq!(set["ETCD_ADVERTISE_CLIENT_URLS"], "https://10.9.9.9:2379");
    assert_eq!(set["ETCD_INITIAL_ADVERTISE_PEER_URLS"], "https://10.9.9.9:2380");
    // With another address family, etcd listens on other addresses.
    there.nodes.insert(there.node.clone(), "fd00::9".to_owned());
    after.initial_cluster = assignment(&there).initial_cluster;
    assert_eq!(
        environment(&after, &there)["ETCD_LISTEN_CLIENT_URLS"],
        "https://[::]:2379"
    );
}

#[test]
fn a_restart_puts_every_setting_in_force_that_is_not_of_the_first_start() {
    let mut spec = spec(&["n1", "n2", "n3"], false);
    let before = running_digest(&assignment(&spec), &spec);
    let mut joined = assignment(&spec);
    joined.initial_state = InitialState::Existing;
    joined.token = "other".into();
    assert_eq!(running_digest(&joined, &spec), before, "read only without data");
    let flag = "initial-election-tick-advance".to_owned();
    spec.etcd.settings.insert(flag, "false".into());
    assert_ne!(
        running_digest(&assignment(&spec), &spec),
        before,
        "read at each start"
    );
}
