//! Impossible values, and values that contradict each other.

use super::*;

#[test]
fn who_holds_the_size() {
    let nodes: Vec<String> = (1..=9).map(|n| format!("n{n} = \"10.0.0.{n}\"")).collect();
    let nodes = format!("nodes = {{ {} }}\n[api]\ninsecure = true\n", nodes.join(", "));
    let s3 = "[store]\nurl = \"s3://backups\"\n";
    let private = "[store]\nurl = \"file:///b\"\n";
    let shared = "[store]\nurl = \"file:///b\"\nshared = true\n";
    let file = || SizeSource::Config {
        file: MAIN.into(),
        line: 2,
    };
    let rows = [
        ("no store", "", "", SizeSource::Default, 3),
        ("a store of each node's own", "", private, SizeSource::Default, 3),
        ("a shared store", "", s3, SizeSource::Store { said: None }, 3),
        (
            "a shared directory",
            "",
            shared,
            SizeSource::Store { said: None },
            3,
        ),
        ("a file", "size = 5\n", s3, file(), 5),
        ("nine, forced", "size = 9\nforce = true\n", s3, file(), 9),
        ("four, forced", "size = 4\nforce = true\n", "", file(), 4),
    ];
    for (what, size, store, expected, wanted) in rows {
        let (root, paths) = tree(&[(MAIN, &format!("[cluster]\n{size}{nodes}{store}"))]);
        let loaded = sources::find(&paths).and_then(|found| assemble(&found, &n1()));
        let mut spec = loaded.unwrap().settings.spec;
        if let SizeSource::Config { file, .. } = &mut spec.size_source {
            *file = Path::new("/").join(file.strip_prefix(root.path()).unwrap());
        }
        assert_eq!((spec.size_source, spec.size), (expected, wanted), "{what}");
    }
    let refused = load_one(&format!("[cluster]\nsize = 9\n{nodes}")).unwrap_err();
    assert!(
        refused.contains("expected 1, 3, 5 or 7") && refused.contains("cluster.force = true overrides"),
        "{refused}"
    );
    let refused = load_one(&format!("[cluster]\nsize = 10\nforce = true\n{nodes}")).unwrap_err();
    assert!(refused.contains("cluster.size"), "{refused}");
}

#[test]
fn b16_one_host_is_not_two_nodes_however_it_is_written() {
    let load = |a: &str, b: &str| {
        load_one(&format!(
            "[node]\nname = \"n1\"\n[cluster]\nnodes = {{ n1 = \"{a}\", n2 = \"{b}\" }}\n[api]\ninsecure = true\n"
        ))
    };
    for (a, b) in [
        ("127.0.0.1", "localhost"),
        ("::1", "127.0.0.1"),
        ("fd00::1", "fd00:0::1"),
        ("fd00::A", "[fd00::a]"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("N1.example.org", "n1.example.org."),
    ] {
        let error = load(a, b).expect_err(&format!("{a} {b}"));
        assert!(error.contains("each node needs its own"), "{a} {b}: {error}");
    }
    for (a, b) in [
        ("127.0.0.1", "127.0.0.2"),
        ("fd00::1", "fd00::2"),
        ("n1", "n1.example.org"),
    ] {
        assert!(load(a, b).is_ok(), "{a} {b}");
    }
    for nowhere in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
        let error = load("10.0.0.1", nowhere).expect_err(nowhere);
        assert!(error.contains("expected a host name or an IP address"), "{error}");
    }
    let text =
        "[node]\nname = \"n1\"\n[cluster]\nnodes = { n1 = \"a\", N1 = \"b\" }\n[api]\ninsecure = true\n";
    let error = load_one(text).expect_err("n1 and N1");
    assert!(error.contains("upper and lower case"), "{error}");
}

#[test]
fn b16_a_store_and_etcds_data_are_apart() {
    for (store, data) in [
        ("/var/lib/etcd/default", "/var/lib/etcd/default"),
        ("/var/lib/etcd/default/backups", "/var/lib/etcd/default"),
        ("/var/lib/etcd/./default/backups", "/var/lib/etcd//default/"),
        ("/var/lib/etcd", "/var/lib/etcd/default"),
    ] {
        let text = format!("[etcd]\ndata_dir = \"{data}\"\n[store]\nurl = \"file://{store}\"\n");
        let error = load_one(&text).expect_err(store);
        assert!(error.contains("inside"), "{store}: {error}");
        let text = format!(
            "[etcd]\ndata_dir = \"{data}\"\n[store]\nurl = \"s3://backups\"\n[store.copy]\nurl = \"file://{store}\"\n"
        );
        assert!(load_one(&text).is_err(), "{store}");
    }
    let text = "[etcd]\ndata_dir = \"/var/lib/etcd/default\"\n[store]\nurl = \"file:///var/lib/etcd/default-backups\"\n";
    assert!(load_one(text).is_ok());
}

#[test]
fn b15_a_calendar_that_never_comes_is_refused() {
    let load = |calendar: &str| {
        load_one(&format!(
            "[store]\nurl = \"file:///b\"\n[backup]\non_calendar = \"{calendar}\"\n"
        ))
    };
    for calendar in [
        "2020-01-01",
        "*-02-30",
        "*-04-31 02:00",
        "2024..2030-*-* 02:00",
        "*-02~31",
    ] {
        let error = load(calendar).expect_err(calendar);
        assert!(error.contains("never comes"), "{calendar}: {error}");
    }
    for calendar in [
        "daily",
        "Mon *-02-29",
        "*-02~01",
        "2024/1-01-01",
        "Sun *-*-* 02:00",
    ] {
        assert!(load(calendar).is_ok(), "{calendar}");
    }
}

#[test]
fn b16_a_time_that_no_clock_counts_to_is_refused() {
    for field in ["interval", "verify_interval", "increment_interval"] {
        let text = format!("[store]\nurl = \"file:///b\"\n[backup]\n{field} = \"500000000000y\"\n");
        let error = load_one(&text).expect_err(field);
        assert!(error.contains("a hundred years"), "{error}");
    }
}

#[test]
fn f04_until_when_backups_were_in_the_clear_is_a_time() {
    let load = |time: &str| {
        let text = format!("[restore]\naccept_plaintext_before = {time}\n");
        load_one(&text).map(|loaded| loaded.settings.encryption.accept_plaintext_before)
    };
    let at = load("\"2026-03-01T12:00:00Z\"").unwrap();
    assert_eq!(at, Some(crate::model::UnixMs(1_772_366_400_000)));
    for wrong in ["\"yesterday\"", "\"1969-01-01T00:00:00Z\"", "true"] {
        let error = load(wrong).expect_err(wrong);
        assert!(error.contains("expected a time in quotes"), "{error}");
    }
}

#[test]
fn h06_metrics_take_no_port_of_etcds() {
    let metrics = |text: &str| load_one(text).map(|loaded| loaded.settings.api.metrics);
    let listen = "[metrics]\nlisten = \"0.0.0.0:9100\"\n";
    assert_eq!(metrics(listen).unwrap(), Some(([0, 0, 0, 0], 9100).into()));
    // If the port is taken, the default address is dropped, but an address that is set is an error.
    let own = "[etcd.settings]\nlisten-metrics-urls = \"http://127.0.0.1:2381\"\n";
    assert_eq!(metrics(own).unwrap(), None);
    assert_eq!(metrics("[etcd]\npeer_port = 2381\n").unwrap(), None);
    let both = format!("{own}[metrics]\nlisten = \"127.0.0.1:2381\"\n");
    let problems = metrics(&both).unwrap_err();
    assert!(
        problems.contains("metrics.listen") && problems.contains("2381"),
        "{problems}"
    );
}

#[test]
fn metrics_over_tls_need_the_agents_certificates() {
    let tls = "[metrics]\ntls = true\n";
    let problems = load_one(tls).expect_err("no certificates");
    assert!(
        problems.contains("metrics.tls: true needs [api.tls]: set its cert_file"),
        "{problems}"
    );
    let files = "[api.tls]\ncert_file = \"/c\"\nkey_file = \"/k\"\nca_file = \"/a\"\n";
    let settings = load_one(&format!("{tls}{files}")).unwrap().settings;
    assert!(settings.api.metrics_tls && settings.api.tls.is_some());
    assert!(
        !load_one(files).unwrap().settings.api.metrics_tls,
        "off by default"
    );
}

#[test]
fn a_fleet_lock_port_is_reached_from_this_host_only() {
    let listen = |text: &str| load_one(text).map(|loaded| loaded.settings.api.fleet_lock);
    assert_eq!(listen("").unwrap(), None, "off by default");
    let local = "[reboot_lock]\nlisten = \"127.0.0.1:2382\"\n";
    assert_eq!(listen(local).unwrap(), Some(([127, 0, 0, 1], 2382).into()));
    for (text, said) in [
        (
            "[reboot_lock]\nlisten = \"0.0.0.0:2382\"\n",
            "expected a loopback address",
        ),
        (
            "[reboot_lock]\nlisten = \"127.0.0.1:2379\"\n",
            "port 2379 is already used",
        ),
        (
            "[reboot_lock]\nlisten = \"127.0.0.1:9100\"\n[metrics]\nlisten = \"127.0.0.1:9100\"\n",
            "port 9100 is already used",
        ),
    ] {
        let problems = listen(text).unwrap_err();
        assert!(
            problems.contains("reboot_lock.listen") && problems.contains(said),
            "{problems}"
        );
    }
}

#[test]
fn a_log_that_is_elsewhere_has_a_directory_of_its_own() {
    let load =
        |rest: &str| load_one(&format!("[etcd]\n{rest}")).map(|loaded| loaded.settings.spec.etcd.wal_dir);
    assert_eq!(load(""), Ok(None));
    assert_eq!(load("wal_dir = \"/disk/etcd\"\n"), Ok(Some("/disk/etcd".into())));
    let rows = [
        ("wal_dir = \"disk/etcd\"", "expected an absolute path"),
        ("wal_dir = \"/disk/my etcd\"", "it goes into a unit file"),
        (
            "wal_dir = \"/var/lib/etcd/default/member/wal\"",
            "is inside etcd.data_dir",
        ),
        (
            "wal_dir = \"/var/lib/etcd\"",
            "is inside /var/lib/etcd: name a directory of the log's own",
        ),
        (
            "wal_dir = \"/disk/etcd\"\n[store]\nurl = \"file:///disk\"",
            "etcd.wal_dir (/disk/etcd) is inside /disk",
        ),
        (
            "wal_dir = \"/disk/etcd\"\n[store]\nurl = \"file:///disk/etcd/backups\"",
            "is inside etcd.wal_dir (/disk/etcd)",
        ),
        ("settings = { wal-dir = \"/disk/etcd\" }", "set etcd.wal_dir"),
    ];
    for (text, why) in rows {
        let refused = load(text).expect_err(text);
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn a_plain_port_for_clients_has_to_be_spelled_out() {
    let text = |more: &str| format!("[node]\nname = \"n1\"\n[etcd]\nplain_client_port = {more}");
    let refused = load_one(&text("12379")).unwrap_err();
    assert!(
        refused.contains("etcd.plain_client_port") && refused.contains("api.insecure = true"),
        "{refused}"
    );
    let spec = load_one(&text("12379\n[api]\ninsecure = true\n"))
        .unwrap()
        .settings
        .spec;
    assert!(spec.listen_client_urls().ends_with(":12379"));
    let taken = load_one(&text("2380\n[api]\ninsecure = true\n")).unwrap_err();
    assert!(taken.contains("port 2380 is already used"), "{taken}");
}

#[test]
fn only_names_that_the_protocol_permits_are_groups_of_the_reboot_lock() {
    let groups = |text: &str| load_one(text).map(|loaded| loaded.settings.api.lock_groups);
    assert_eq!(groups("").unwrap(), ["default"]);
    let two = "[reboot_lock]\ngroups = [\"workers\", \"db.a-1\"]\n";
    assert_eq!(groups(two).unwrap(), ["workers", "db.a-1"]);
    let long = format!("[\"{}\"]", "x".repeat(257));
    for (value, said) in [
        ("[]", "found an empty list"),
        ("\"default\"", "expected a list of groups"),
        ("[\"a b\"]", "\"a b\" is not a valid group"),
        ("[\"default\", \"\"]", "\"\" is not a valid group"),
        (long.as_str(), "is not a valid group"),
    ] {
        let problems = groups(&format!("[reboot_lock]\ngroups = {value}\n")).unwrap_err();
        assert!(
            problems.contains("reboot_lock.groups") && problems.contains(said),
            "{value}: {problems}"
        );
    }
}

/// Whether systemd may start the agent again with the same configuration.
#[test]
fn only_a_cause_outside_of_the_configuration_may_pass() {
    let late = || Machine {
        name: "localhost".to_owned(),
        ..n1()
    };
    let unknown = || Machine {
        data_dir: Err("is not set, and /etc/default/etcd cannot be read".to_owned()),
        ..n1()
    };
    let nodes = format!("[cluster]\nnodes = {{ n1 = \"10.0.0.1\", n2 = \"10.0.0.2\" }}\n{TLS}");
    let typo = nodes.replace("nodes = ", "nmae = \"prod\"\nnodes = ");
    let named = format!("[node]\nname = \"n9\"\n{nodes}");
    let rows = [
        ("the host's name, which is set late", nodes.as_str(), late(), true),
        (
            "no name of a node",
            "",
            Machine {
                name: "-x".to_owned(),
                ..n1()
            },
            true,
        ),
        ("node.name", &named, n1(), false),
        ("a key that does not exist", &typo, n1(), false),
        ("that and the host's name", &typo, late(), false),
        ("a file of etcd's unit", &nodes, unknown(), true),
    ];
    for (what, text, machine, expected) in rows {
        let (_root, paths) = tree(&[(MAIN, text)]);
        let problems = sources::find(&paths)
            .and_then(|found| assemble(&found, &machine))
            .expect_err(what);
        assert_eq!(problems.may_pass(), expected, "{what}: {problems}");
    }
    let (root, paths) = tree(&[(MAIN, "")]);
    fs::write(root.path().join(&MAIN[1..]), b"\xff").unwrap();
    assert!(!sources::find(&paths).unwrap_err().may_pass(), "no text");
    // The file was replaced between the listing and the reading.
    let gone = sources::only(&root.path().join("gone.toml")).unwrap_err();
    assert!(gone.may_pass(), "{gone}");
}
