#![allow(clippy::unwrap_used, clippy::expect_used)]

mod already;
mod archive;
mod backup_change;
mod backup_show;
pub(in crate::cli) mod fixture;
mod look;
mod ok_to_stop;
mod orders;
mod outputs;
mod pages;
mod plan_after;
mod restore_to;
pub(in crate::cli) mod schema;
mod schema_answers;
mod socket;
mod text;
mod upgrade;

use super::*;
use crate::model::{Fact, NodeName, SizeView, TlsFiles, testing};
use fixture::{name, settings_tree, status};

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
    for line in [
        "status -o json",
        "status --watch",
        "status --all --clusters /tmp/clusters.toml -o json",
        "status --host n2 -o json",
        "--host n2 backup list",
        "status --watch=5 -o wide --color never",
        "--color always status -o yaml",
        "events --since -1h",
        "events --since yesterday -n 5 --follow",
        "backup now --timeout 90s",
        "backup now --format native -o json",
        "backup now --format etcd-manager --timeout 90s",
        "backup run --once --endpoints https://10.0.0.1:2379,https://10.0.0.2:2379 --cacert ca --cert c --key k",
        "etcd-manager commands list -o json",
        "etcd-manager commands delete 2023-11-14T23:00:00Z-000000",
        "etcd-manager commands delete 2023-11-14T23:00:00Z-000000 --yes -o yaml",
        "bootstrap --empty",
        "bootstrap --empty --yes -o json",
        "restore latest --yes -o json",
        "restore latest --to /tmp/data -o json",
        "init -o json",
        "reload -o json",
        "config check --accept-losses --yes -o json",
        "spec set size=3 --yes",
        "alarm disarm --force --yes",
        "reboot-lock release n2 --yes",
        "backup show",
        "backup show 2026-03-01T12:00:00Z-000003 -o json",
        "backup now --note before",
        "backup delete 2026-03-01T12:00:00Z-000003 2026-03-01T11:00:00Z-000002 --yes",
        "backup list -o json --timeout 1h",
        "backup prune --dry-run -o json",
        "backup prune --timeout 5m",
        "backup list -o wide",
        "backup delete 2026-03-01T12:00:00Z-000003 --dry-run -o json",
        "backup keep latest --reason audit -o json",
        "backup keep 2026-03-01T12:00:00Z-000003 --undo",
        "backup annotate 2026-03-01T12:00:00Z-000003 text --dry-run",
        "backup annotate latest --remove -o yaml",
        "archive list",
        "archive list --data-dir /mnt/old/etcd -o yaml",
        "archive prune",
        "archive prune --dry-run -o json",
        "archive prune 20261127T120000Z-restore-1-2 20261127T110000Z-older-epoch-1-2.wal --force --yes",
        "restore latest --yes --without n2 --without n3",
        "restore latest --revision 81240",
        "restore latest --time 2026-03-01T12:00:00Z",
        "bootstrap --without n3",
        "plan --observation -",
        "ok-to-stop",
        "ok-to-stop n2 -o json",
        "render -o dropin",
        "config check /tmp/x --as /etc/etcd-agent/config.d/10.toml",
        "config show -o json",
        "config is-loaded -o json",
        "spec get",
        "spec set size=5 --dry-run",
        "spec set size=4 --force -o json",
        "restore latest --dry-run",
        "bootstrap --dry-run",
        "init --timeout 1m",
        "events -n 5 --follow -o json",
        "pause --wait --timeout 5s",
        "resume --dry-run -o json",
        "move-leader n2 --dry-run",
        "restart --rolling",
        "restart n2 -o json",
        "restart --cancel",
        "log-level",
        "log-level debug -o json",
        "log-level --reset",
        "alarm list -o json",
        "alarm disarm",
        "alarm disarm NOSPACE --node n2 --force -o json",
        "member remove n3 --force --dry-run",
        "member add n3 -o json",
        "member list -o json",
        "run",
        "reload --timeout 10s",
        "gate",
    ] {
        let words = std::iter::once("etcd-agent").chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
    assert!(Cli::try_parse_from(["etcd-agent", "restore"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "status", "--all", "--watch"]).is_err());
    for line in ["run", "gate", "status --all"] {
        let words = std::iter::once("etcd-agent").chain(line.split(' '));
        let refused = Cli::try_parse_from(words)
            .unwrap()
            .verb
            .on(&name("n2"))
            .unwrap_err();
        assert!(
            refused.exit == Exit::Usage && refused.text.starts_with("--host n2: "),
            "{refused}"
        );
    }
    assert!(Cli::try_parse_from(["etcd-agent", "status", "--watch=0"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "events", "--since", "soon"]).is_err());
    let acts = Cli::try_parse_from(["etcd-agent", "backup", "--format", "etcd-manager"]);
    assert!(acts.is_err(), "`backup` shows help, with options too");
    for bad in [
        "archive prune --force",
        "archive prune ../x",
        "archive prune by-hand",
        "backup delete",
        "backup now --increment --note x",
        "backup keep x --undo --reason y",
        "backup annotate x",
        "backup annotate x y --remove",
        "backup annotate x \u{1b}[2J",
    ] {
        let words = std::iter::once("etcd-agent").chain(bad.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{bad}");
    }
    assert!(Cli::try_parse_from(["etcd-agent", "plan", "--after", "lose n2"]).is_ok());
    assert!(Cli::try_parse_from(["etcd-agent", "ok-to-stop", "bad name"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "spec", "set", "size=many"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "log-level", "loud"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "log-level", "debug", "--reset"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "alarm", "disarm", "NOROOM"]).is_err());
    assert!(Cli::try_parse_from(["etcd-agent", "bootstrap", "--without", "bad name"]).is_err());
}

#[test]
fn the_former_names_of_commands_do_the_same() {
    let parsed = |line: &str| {
        let words = std::iter::once("etcd-agent").chain(line.split(' '));
        Cli::try_parse_from(words).unwrap().verb
    };
    let list = parsed("members -o json");
    assert!(matches!(list, Verb::Members(_)), "{list:?}");
    let delete = parsed("commands delete x");
    assert!(
        matches!(&delete, Verb::Commands(commands::CommandsVerb::Delete { name, .. }) if name == "x"),
        "{delete:?}"
    );
    let (_root, paths) = settings_tree("[node]\nname = \"n1\"\n");
    for line in ["check-config", "config check"] {
        assert!(
            matches!(with_runtime(&paths, parsed(line)), Ok(Exit::Ok)),
            "{line}"
        );
    }
    let help = Cli::command().render_long_help().to_string();
    for former in ["  members", "  commands", "  check-config"] {
        assert!(!help.contains(former), "{former} is in the help");
    }
}

#[test]
fn init_writes_what_the_configuration_accepts() {
    let node = name("web-1");
    let text = init::configuration(&node);
    let (_root, paths) = settings_tree(&text);
    let loaded = crate::config::load(&paths).unwrap().unwrap();
    let mut spec = loaded.settings.spec;
    assert_eq!(spec.node, node);
    assert_eq!(spec.client_url(&node).as_deref(), Some("http://127.0.0.1:2379"));
    assert!(loaded.settings.store.is_some() && !spec.store_shared);

    assert_eq!(backup_table::own_only(&spec), "", "it has all backups there are");
    spec.nodes.insert(name("web-2"), "10.0.0.2".to_owned());
    let said = backup_table::own_only(&spec);
    assert!(said.contains("only the backups that web-1 took"), "{said}");
    spec.store_shared = true;
    assert_eq!(backup_table::own_only(&spec), "");
}

#[test]
fn init_goes_on_after_itself_and_refuses_anything_else() {
    let text = init::configuration(&name("n1"));
    let (root, paths) = settings_tree(&text);
    assert_eq!(
        init::write_wanted(&paths, &text),
        Ok(false),
        "a second init goes on with the first"
    );
    let fragments = root.path().join("etc/etcd-agent/config.d");
    std::fs::create_dir_all(&fragments).unwrap();
    std::fs::write(fragments.join("10.toml"), "").unwrap();
    assert_eq!(init::write_wanted(&paths, &text).unwrap_err().exit, Exit::Refused);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(init::write_wanted(&Paths::below(empty.path()), &text), Ok(true));
}

#[test]
fn init_keeps_a_log_that_is_elsewhere() {
    let text = init::configuration(&name("n1"));
    let (_empty, host) = settings_tree("");
    assert_eq!(init::with_log(&host, text.clone(), None), Ok(text.clone()));
    let with_log = init::with_log(&host, text.clone(), Some("/disk/etcd".as_ref())).unwrap();
    let (_root, paths) = settings_tree(&with_log);
    let spec = crate::config::load(&paths).unwrap().unwrap().settings.spec;
    assert_eq!(spec.etcd.wal_dir, Some("/disk/etcd".into()));
    assert_eq!(
        init::write_wanted(&paths, &text),
        Ok(false),
        "a second init goes on"
    );
    let more = format!("{with_log}client_port = 2377\n");
    let (_root, paths) = settings_tree(&more);
    assert_eq!(init::write_wanted(&paths, &text).unwrap_err().exit, Exit::Refused);
    for dir in [
        "etcd",
        "/disk/my etcd",
        "/var/lib/etcd/default/log",
        "/proc",
        "/a\"b",
    ] {
        let refused = init::with_log(&host, text.clone(), Some(dir.as_ref())).unwrap_err();
        assert_eq!(refused.exit, Exit::Refused, "{dir}");
        assert!(
            refused.text.contains("cannot take over"),
            "{dir}: {}",
            refused.text
        );
    }
}

#[test]
fn init_refuses_data_that_is_not_the_agents() {
    let (root, paths) = settings_tree("");
    assert_eq!(init::refuse_foreign_data(&paths), Ok(()));
    std::fs::create_dir_all(root.path().join("var/lib/etcd/default/member")).unwrap();
    let refused = init::refuse_foreign_data(&paths).unwrap_err();
    assert_eq!(refused.exit, Exit::Refused);
    assert!(refused.text.contains("var/lib/etcd/default"), "{}", refused.text);
    std::fs::create_dir_all(paths.state()).unwrap();
    std::fs::write(paths.assignment(), "{}").unwrap();
    assert_eq!(
        init::refuse_foreign_data(&paths),
        Ok(()),
        "what is assigned is the agent's"
    );
}

#[test]
fn only_silent_peers_can_be_vouched_for() {
    let mut seen = status();
    seen.peers.insert(
        name("n3"),
        crate::model::Fact::Unreachable("connection refused".into()),
    );
    assert_eq!(restore::known_nodes(&seen, &[name("n3")]).unwrap().len(), 1);
    for (who, exit) in [("n1", Exit::Refused), ("n2", Exit::Refused), ("n9", Exit::Usage)] {
        assert_eq!(
            restore::known_nodes(&seen, &[name(who)]).unwrap_err().exit,
            exit,
            "{who}"
        );
    }
}

#[test]
fn an_observation_replays_alone_or_inside_a_plan() {
    let observation = fixture::observation();
    let alone = serde_json::to_vec(&observation).unwrap();
    assert_eq!(plan::parse(&alone).unwrap(), observation);
    let view = plan::replay(observation.clone());
    let inside = serde_json::to_vec(&view).unwrap();
    assert_eq!(plan::parse(&inside).unwrap(), observation);
    assert_eq!(
        plan::replay(plan::parse(&inside).unwrap()),
        view,
        "the planner is pure"
    );
}

#[test]
fn what_would_be_assigned_names_this_node() {
    let tls = TlsFiles {
        cert_file: "/c".into(),
        key_file: "/k".into(),
        ca_file: "/a".into(),
    };
    let mut spec = testing::spec(&["n1", "n2", "n3", "n4", "n5"]);
    spec.node = name("n5");
    spec.size = 3;
    spec.etcd.client_tls = Some(tls.clone());
    spec.etcd.peer_tls = Some(tls);
    let names: Vec<NodeName> = render::would_be(&spec).initial_cluster.into_keys().collect();
    assert_eq!(names, [name("n1"), name("n2"), name("n5")]);
    insta::assert_snapshot!("spec", spec::render(&spec));
}

#[test]
fn the_size_is_changed_where_the_configuration_holds_it() {
    let text = "[cluster]\nname = \"prod\"\nsize = 1\n";
    let (_root, paths) = settings_tree(text);
    let loaded = crate::config::load(&paths).unwrap().unwrap();
    let entry = loaded.entries.iter().find(|entry| entry.field == "cluster.size");
    let said = spec::held(3, entry, &paths.config_file());
    assert!(
        said.contains("config.toml:3") && said.contains("write 3 there"),
        "{said}"
    );
    let said = spec::held(3, None, std::path::Path::new("/etc/etcd-agent/config.toml"));
    assert!(
        said.contains("by default") && said.contains("/etc/etcd-agent/config.toml"),
        "{said}"
    );
}

#[test]
fn who_follows_another_size_is_named() {
    let mut status = status();
    let nobody: Vec<String> = Vec::new();
    assert_eq!(spec::not_following(&status, 3), (nobody.clone(), nobody.clone()));
    let (late, _) = spec::not_following(&status, 5);
    assert_eq!(late, ["n1 does not follow it yet"]);
    if let Some(Fact::Known(peer)) = status.peers.get_mut(&name("n2")) {
        peer.spec_digest = "other".to_owned();
    }
    status
        .peers
        .insert(name("n3"), Fact::Unreachable("no route".to_owned()));
    let (late, silent) = spec::not_following(&status, 3);
    assert!(late.len() == 1 && late[0].starts_with("n2 does not"), "{late:?}");
    assert_eq!(silent, ["n3 is silent: it reads the store when it is back"]);
}

#[test]
fn what_became_of_a_size_is_said() {
    let mut view = SizeView {
        size: 5,
        before: 3,
        changed: true,
        place: "prod/control/etcd-cluster-spec in s3://b".to_owned(),
        decision: None,
    };
    let mut said = vec![spec::ordered(&view)];
    view.changed = false;
    said.push(spec::ordered(&view));
    view.decision = Some(fixture::decision("x"));
    said.push(spec::ordered(&view));
    insta::assert_snapshot!("spec_set", said.concat());
}
