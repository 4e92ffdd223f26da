#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::format_push_string,
    clippy::format_collect
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::model::SizeSource;

mod documentation;
mod store;
mod values;

const MAIN: &str = "/etc/etcd-agent/config.toml";

fn tree(files: &[(&str, &str)]) -> (TempDir, Paths) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let paths = Paths::below(root.path());
    (root, paths)
}

/// Host `n1`, which has 16 GiB of memory.
fn n1() -> Machine {
    Machine {
        name: "n1".to_owned(),
        memory: 16 << 30,
        data_dir: Ok("/var/lib/etcd/default".into()),
    }
}

/// Loads the configuration as on host `n1`. Returns errors as text, without the path of the temporary root.
fn load_tree(files: &[(&str, &str)]) -> Result<Loaded, String> {
    let (root, paths) = tree(files);
    sources::find(&paths)
        .and_then(|found| assemble(&found, &n1()))
        .map_err(|problems| problems.to_string().replace(root.path().to_str().unwrap(), ""))
}

fn load_one(text: &str) -> Result<Loaded, String> {
    load_tree(&[(MAIN, text)])
}

const TLS: &str = "[api.tls]\ncert_file = \"/a/c\"\nkey_file = \"/a/k\"\nca_file = \"/a/ca\"\n\
    [etcd.client_tls]\ncert_file = \"/e/c\"\nkey_file = \"/e/k\"\nca_file = \"/e/ca\"\n\
    [etcd.peer_tls]\ncert_file = \"/p/c\"\nkey_file = \"/p/k\"\nca_file = \"/p/ca\"\n";

#[test]
fn no_file_at_all_is_not_configured() {
    let (_root, paths) = tree(&[
        ("/etc/etcd-agent/config.d/readme.txt", "x"),
        ("/etc/etcd-agent/config.d/.a.toml", "x"),
    ]);
    assert!(load(&paths).unwrap().is_none());
}

#[test]
fn an_empty_file_is_a_single_node_with_defaults() {
    let loaded = load_one("").unwrap();
    let settings = loaded.settings;
    assert_eq!(settings.spec.size, 1);
    assert_eq!(settings.spec.cluster.as_str(), "default");
    assert_eq!(settings.spec.nodes.values().collect::<Vec<_>>(), ["n1"]);
    assert_eq!(settings.spec.backup_interval, None);
    assert_eq!(settings.api.listen, None);
    assert_eq!(settings.api.port, 2378);
    assert_eq!(settings.api.metrics, Some(([127, 0, 0, 1], 2381).into()));
    assert_eq!(settings.archive.keep, 3);
    assert_eq!(settings.archive.max_age, Duration::from_hours(720));
}

#[test]
fn three_nodes_with_everything() {
    let text = format!(
        "[node]\nname = \"n1\"\n[cluster]\nname = \"prod\"\nnodes = {{ n1 = \"10.0.0.1\", n2 = \"fd00::2\", n3 = \"n3.example.org\" }}\n\
         {TLS}[etcd.settings]\nquota-backend-bytes = 8589934592\npre-vote = true\nlog-level = \"info\"\n\
         [store]\nurl = \"s3://backups/etcd/\"\nendpoint = \"https://s3.example.org:9000/\"\n[backup]\ninterval = \"5m\"\n"
    );
    let settings = load_one(&text).unwrap().settings;
    assert_eq!(settings.spec.size, 3);
    assert_eq!(settings.spec.majority(), 2);
    assert_eq!(settings.api.listen.unwrap().to_string(), "[::]:2378");
    assert_eq!(settings.api.metrics, None, "off if there are other nodes");
    assert_eq!(settings.spec.etcd.settings["quota-backend-bytes"], "8589934592");
    assert_eq!(settings.spec.etcd.settings["pre-vote"], "true");
    assert_eq!(settings.spec.backup_interval, Some(Duration::from_mins(5)));
    let store = settings.store.unwrap();
    assert_eq!(store.region.as_deref(), Some("us-east-1"));
    assert_eq!(store.endpoint.as_deref(), Some("https://s3.example.org:9000"));
    let url = StoreUrl::S3 {
        bucket: "backups".into(),
        prefix: "etcd".into(),
    };
    assert_eq!(store.url, url);
    assert!(store.shared && settings.spec.store_shared);
    assert_eq!(settings.spec.shared_store, store.shared_url());
}

#[test]
fn the_examples_in_the_documentation_are_accepted() {
    let page = include_str!("../../docs/configuration.md");
    let guide = page
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let manual = include_str!("../../docs/man/etcd-agent.toml.5");
    let manual = manual.split(".SH EXAMPLE\n.nf\n").nth(1).unwrap();
    let manual = manual.split(".fi").next().unwrap();
    for text in [guide, manual] {
        assert_eq!(load_one(text).unwrap().settings.spec.nodes.len(), 3, "{text}");
    }
}

#[test]
fn the_digest_sees_each_change_of_a_source() {
    const FRAGMENT: &str = "/etc/etcd-agent/config.d/10-a.toml";
    let main = (MAIN, "[cluster]\nname = \"a\"\n");
    let (_root, paths) = tree(&[main]);
    let before = digest(&paths).unwrap();
    assert_eq!(digest(&paths).unwrap(), before);
    assert_eq!(load(&paths).unwrap().unwrap().digest, before);
    fs::write(paths.config_file(), "[cluster]\nname = \"b\"\n").unwrap();
    assert_ne!(digest(&paths).unwrap(), before, "another value");
    fs::write(paths.config_file(), main.1).unwrap();
    assert_eq!(digest(&paths).unwrap(), before);
    let fragment = paths.host(Path::new(FRAGMENT));
    fs::create_dir_all(fragment.parent().unwrap()).unwrap();
    fs::write(&fragment, "").unwrap();
    assert_ne!(digest(&paths).unwrap(), before, "one more file");
    let (_root, empty) = tree(&[]);
    assert_eq!(digest(&empty).unwrap(), no_files_digest());
}

#[test]
fn later_sources_win_key_by_key() {
    let loaded = load_tree(&[
        (
            "/usr/lib/etcd-agent/config.d/10-base.toml",
            "[cluster]\nname = \"base\"\ngrace = \"1m\"\n[archive]\nkeep = 9\n",
        ),
        (
            "/run/etcd-agent-config.d/10-run.toml",
            "[cluster]\ngrace = \"2m\"\nnodes = { n1 = \"a\" }\n",
        ),
        (MAIN, "[cluster]\nnodes.n2 = \"b\"\n[api]\ninsecure = true\n"),
        (
            "/etc/etcd-agent/config.d/20-b.toml",
            "[cluster]\nname = \"twenty\"\n",
        ),
        (
            "/etc/etcd-agent/config.d/10-a.toml",
            "[cluster]\nname = \"ten\"\n",
        ),
    ])
    .unwrap();
    let spec = &loaded.settings.spec;
    assert_eq!(spec.cluster.as_str(), "twenty");
    assert_eq!(spec.grace, Duration::from_mins(2));
    assert_eq!(spec.nodes.len(), 2);
    assert_eq!(spec.size, 1, "two nodes cannot have a majority of three");
    assert_eq!(loaded.settings.archive.keep, 9);
    assert_eq!(loaded.files.len(), 5);
    let name = loaded
        .entries
        .iter()
        .find(|entry| entry.field == "cluster.name")
        .unwrap();
    assert!(
        name.origin().ends_with("/etc/etcd-agent/config.d/20-b.toml:2"),
        "{}",
        name.origin()
    );
}

#[test]
fn errors_name_file_line_field_and_what_to_do() {
    let rows = [
        (
            "unknown_keys",
            "[clutser]\nname = \"a\"\n[cluster]\nnmae = \"a\"\ninterval = \"5m\"\nzzzzzz = 1\n[store]\nurl = \"file:///b\"\npath-style = true\n",
        ),
        (
            "types",
            "[cluster]\nname = 3\nsize = \"3\"\ngrace = 5\nnodes = [\"n1\"]\n[api]\ninsecure = \"yes\"\nlisten = \"2378\"\n[etcd]\nclient_port = 70000\ndata_dir = \"relative\"\nbinary = \"/opt/my etcd\"\nsettings = 1\n[archive]\nkeep = 0\nmax_age = 1.5\n[node]\nname = \"-x\"\n",
        ),
        ("table_for_value", "cluster = 1\n[node.name]\nx = 1\n"),
        ("syntax", "[cluster\nname = \"a\"\n[cluster]\nname = \n"),
        (
            "even_size",
            "[cluster]\nsize = 2\nnodes = { n1 = \"a\", n2 = \"b\", n3 = \"c\" }\n[api]\ninsecure = true\n",
        ),
        ("size_above_nodes", "[cluster]\nsize = 5\n"),
        (
            "node_not_listed",
            "[cluster]\nnodes = { n2 = \"b\", n3 = \"c\" }\n[api]\ninsecure = true\n",
        ),
        (
            "peers_without_tls",
            "[cluster]\nnodes = { n1 = \"a\", n2 = \"b\", n3 = \"c\" }\n",
        ),
        ("open_single_node", "[cluster]\nnodes = { n1 = \"10.0.0.1\" }\n"),
        (
            "half_tls",
            "[cluster]\nnodes = { n1 = \"a\", n2 = \"b\", n3 = \"c\" }\n[api.tls]\ncert_file = \"/c\"\n[etcd.client_tls]\ncert_file = \"/c\"\nkey_file = 3\nca_file = \"/c\"\n[etcd.peer_tls]\ncert_file = \"/c\"\nkey_file = \"/c\"\nca_file = \"/c\"\n",
        ),
        (
            "settings",
            "[etcd.settings]\nname = \"x\"\nquota-backend-byte = 3\nETCD_HEARTBEAT_INTERVAL = 100\nmax-txn-ops = 1.5\nlog-level = \"a\\nb\"\ninitial-cluster-state = \"new\"\n",
        ),
        ("store", "[store]\nurl = \"s3://AKIAEXAMPLE:secret@bucket/x\"\n"),
        ("store_without_url", "[store]\nregion = \"eu\"\n"),
        (
            "directory_with_region",
            "[store]\nurl = \"file:///b\"\nregion = \"eu\"\nshared = true\n",
        ),
        (
            "addresses",
            "[cluster]\nnodes = { n1 = \"http://a\", n2 = \"10.0.0.2:2380\", n3 = \"same\", n4 = \"same\", \"n 5\" = \"x\" }\n[api]\ninsecure = true\n",
        ),
        ("ports", "[etcd]\nclient_port = 2380\n"),
        (
            "quotas",
            "[etcd.settings]\nquota-backend-bytes = 4294967296\n[space]\nquota = \"auto\"\n",
        ),
        ("small_quota", "[space]\nquota = \"1MiB\"\n"),
    ];
    let mut text = String::new();
    for (name, config) in rows {
        let error = load_one(config).map(|_| ()).expect_err(name);
        text.push_str(&format!("## {name}\n{error}\n\n"));
    }
    insta::assert_snapshot!("errors", text);
}

#[test]
fn the_quota_is_a_size_or_follows_the_memory() {
    let quota =
        |text: &str| load_one(&format!("[space]\n{text}")).map(|loaded| loaded.settings.spec.etcd.quota());
    assert_eq!(quota("quota = \"auto\"\n"), Ok(Some(8 << 30)));
    assert_eq!(quota("quota = \"3GiB\"\n"), Ok(Some(3 << 30)));
    assert_eq!(quota(""), Ok(Some(2 << 30)), "etcd's default");
}

#[test]
fn all_problems_of_all_files_come_at_once() {
    let error = load_tree(&[
        ("/usr/lib/etcd-agent/config.d/10.toml", "[cluster]\nsise = 3\n"),
        (MAIN, "[api\n"),
        (
            "/etc/etcd-agent/config.d/10.toml",
            "[cluster]\n\n\ngrace = \"soon\"\n",
        ),
    ])
    .unwrap_err();
    insta::assert_snapshot!("many_files", error);
}

#[test]
fn a_source_that_cannot_be_read_is_named() {
    let (root, paths) = tree(&[(MAIN, "")]);
    let dir = root.path().join("etc/etcd-agent/config.d/50-dir.toml");
    fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(
        "nowhere",
        root.path().join("etc/etcd-agent/config.d/60-gone.toml"),
    )
    .unwrap();
    fs::write(
        root.path().join("etc/etcd-agent/config.d/70-bytes.toml"),
        [0xff, 0xfe],
    )
    .unwrap();
    let error = load(&paths).unwrap_err().to_string();
    for expected in [
        "50-dir.toml: is refused",
        "60-gone.toml: is refused",
        "70-bytes.toml: cannot be read",
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_candidate_stands_in_for_the_main_file() {
    let (root, paths) = tree(&[
        (MAIN, "[cluster]\nname = 3\n"),
        ("/etc/etcd-agent/config.d/10.toml", "[cluster]\ngrace = \"7m\"\n"),
        (
            "/tmp/candidate",
            "[node]\nname = \"other\"\n[cluster]\nname = \"new\"\n",
        ),
    ]);
    let candidate = root.path().join("tmp/candidate");
    let loaded = check_candidate(&paths, &candidate, &paths.config_file()).unwrap();
    assert_eq!(loaded.settings.spec.cluster.as_str(), "new");
    assert_eq!(loaded.settings.spec.grace, Duration::from_mins(7));
    // A candidate that is a source is read in its own place.
    let fragment = root.path().join("etc/etcd-agent/config.d/10.toml");
    assert!(check_candidate(&paths, &fragment, &paths.config_file()).is_err());
    // A new fragment is merged in the order of its place.
    let place = root.path().join("etc/etcd-agent/config.d/05.toml");
    fs::write(paths.config_file(), "[node]\nname = \"n9\"\n").unwrap();
    let loaded = check_candidate(&paths, &candidate, &place).unwrap();
    assert_eq!(loaded.settings.spec.node.as_str(), "other");
    // Problems in the candidate are reported with the candidate's own path.
    fs::write(&candidate, "[cluster]\nnmae = 1\n").unwrap();
    let error = check_candidate(&paths, &candidate, &paths.config_file())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("candidate:2: cluster.nmae: no such key; did you mean \"name\"?"),
        "{error}"
    );
}

#[test]
fn show_says_where_each_value_comes_from() {
    let (root, paths) = tree(&[
        (
            "/usr/lib/etcd-agent/config.d/10.toml",
            "[store]\nurl = \"s3://backups\"\n",
        ),
        (
            MAIN,
            "[node]\nname = \"n1\"\n\n[cluster]\nnodes = { n1 = \"10.0.0.1\" }\n[api]\ninsecure = true\n[etcd.settings]\nlog-outputs = \"unix://user:secret@x?token=y\"\n",
        ),
    ]);
    let loaded = load(&paths).unwrap().unwrap();
    let text: String = loaded
        .entries
        .iter()
        .map(|entry| format!("{} = {}  # {}\n", entry.field, entry.value, entry.origin()))
        .collect();
    insta::assert_snapshot!("show", text.replace(root.path().to_str().unwrap(), ""));
}

#[test]
fn secrets_are_hidden() {
    let rows = [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("https://user:pw@host/x", "https://***@host/x"),
        ("https://a@b:p@w@host?x=1", "https://***@host?***"),
        ("plain words", "plain words"),
    ];
    for (text, expected) in rows {
        assert_eq!(redact(text), expected);
    }
}

fn fragment() -> impl Strategy<Value = BTreeMap<String, String>> {
    let value = prop_oneof![Just("1m"), Just("2m"), Just("3m")].prop_map(|time| format!("\"{time}\""));
    let key = prop_oneof![
        Just("cluster.grace"),
        Just("backup.interval"),
        Just("archive.max_age")
    ];
    proptest::collection::btree_map(key.prop_map(str::to_owned), value, 0..3)
}

proptest! {
    /// Merged files equal one file that has the last value of each key.
    #[test]
    fn merging_is_last_word_by_key(files in proptest::collection::vec(fragment(), 1..5)) {
        let mut one = BTreeMap::from([("store.url".to_owned(), "\"file:///b\"".to_owned())]);
        let base = [one.clone()];
        let texts: Vec<(String, String)> = base.iter().chain(&files).enumerate().map(|(index, keys)| {
            let text = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            (format!("/etc/etcd-agent/config.d/{index:02}.toml"), text)
        }).collect();
        for file in &files {
            one.extend(file.clone());
        }
        let single: String = one.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let many: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        prop_assert_eq!(load_tree(&many).unwrap().settings, load_one(&single).unwrap().settings);
    }

    /// For any content of a file, loading returns a result and does not panic.
    #[test]
    fn nothing_in_a_file_makes_it_panic(text in "(\\[?[a-z_.]{1,12}\\]?( = (\"[a-z0-9:/]{0,9}\"|[0-9]{1,4}|true|\\{ [a-z] = 1 \\}))?\n){0,8}") {
        let _ = load_one(&text);
    }
}
