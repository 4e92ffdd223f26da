#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::config::{self, Loaded};

const TLS: &str = "[api.tls]\ncert_file = \"/a/c\"\nkey_file = \"/a/k\"\nca_file = \"/a/ca\"\n\
    [etcd.client_tls]\ncert_file = \"/e/c\"\nkey_file = \"/e/k\"\nca_file = \"/e/ca\"\n\
    [etcd.peer_tls]\ncert_file = \"/p/c\"\nkey_file = \"/p/k\"\nca_file = \"/p/ca\"\n";

const FILES: &str = "{\"cert_file\":\"/c\",\"key_file\":\"/k\",\"ca_file\":\"/ca\"}";

/// A node that runs a member: the first of three nodes with TLS.
struct Node {
    root: tempfile::TempDir,
    paths: Paths,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir_all(paths.state()).unwrap();
        fs::create_dir_all(paths.config_file().parent().unwrap()).unwrap();
        let members = ["n1", "n2", "n3"].map(|n| format!("\"{n}\": [\"https://{n}:2380\"]"));
        let assignment = format!(
            "{{\"generation\":1,\"epoch\":1,\"node\":\"n1\",\"member_id\":\"1\",\"cluster_id\":\"1\",\
             \"token\":\"my-prod-1-abc\",\"role\":\"founder\",\"initial_state\":\"existing\",\
             \"initial_cluster\":{{{}}},\"data_dir\":\"/var/lib/etcd/default\",\"listed\":0,\"started\":true,\
             \"restore\":null,\"settings_digest\":\"x\",\"transport\":{{\"client\":{FILES},\"peer\":{FILES},\"peer_listens\":true}}}}",
            members.join(",")
        );
        fs::write(paths.assignment(), assignment).unwrap();
        fs::write(paths.api_record(), "{\"tls\":true}").unwrap();
        Self { root, paths }
    }

    fn load(&self, text: &str) -> Result<Option<Loaded>, Problems> {
        let text = format!("[node]\nname = \"n1\"\n{text}");
        fs::write(self.paths.config_file(), text).unwrap();
        config::load_here(&self.paths)
    }

    /// The fields that would be lost.
    fn lost(&self, text: &str) -> Vec<String> {
        match self.load(text) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(|problem| problem.field.clone()).collect(),
        }
    }
}

fn nodes(names: &[&str]) -> String {
    let nodes: Vec<String> = names.iter().map(|n| format!("{n} = \"{n}\"")).collect();
    format!("nodes = {{ {} }}\n", nodes.join(", "))
}

#[test]
fn b10_what_a_node_that_runs_a_member_would_lose_is_refused() {
    let node = Node::new();
    let name = "[cluster]\nname = \"my-prod\"\n";
    let three = format!("{name}{}", nodes(&["n1", "n2", "n3"]));
    let insecure = "[api]\ninsecure = true\n";
    let all = [
        "cluster.name",
        "cluster.nodes",
        "etcd.peer_tls",
        "etcd.client_tls",
        "api.tls",
    ];
    let etcds = TLS.split_once("[etcd.client_tls]").unwrap().1;
    let etcds = format!("[etcd.client_tls]{etcds}");
    let table: Vec<(&str, String, Vec<&str>)> = vec![
        ("an empty file", String::new(), all.to_vec()),
        ("the configuration that it had", format!("{three}{TLS}"), vec![]),
        (
            "cut off after the name",
            name.to_owned(),
            vec!["cluster.nodes", "etcd.peer_tls", "etcd.client_tls", "api.tls"],
        ),
        (
            "cut off before TLS",
            format!("{three}{insecure}"),
            vec!["etcd.peer_tls", "etcd.client_tls", "api.tls"],
        ),
        (
            "without the TLS of the API, which api.insecure permits",
            format!("{three}{insecure}{etcds}"),
            vec!["api.tls"],
        ),
        (
            "api.insecure next to the TLS of the API",
            format!("{three}{insecure}{TLS}"),
            vec![],
        ),
        (
            "another name",
            format!("[cluster]\nname = \"my\"\n{}{TLS}", nodes(&["n1", "n2", "n3"])),
            vec!["cluster.name"],
        ),
        (
            "one of three replaced",
            format!("{name}{}{TLS}", nodes(&["n1", "n2", "n4"])),
            vec![],
        ),
        (
            "two of three removed",
            format!("{name}{}{TLS}", nodes(&["n1"])),
            vec!["cluster.nodes"],
        ),
    ];
    for (what, text, expected) in table {
        assert_eq!(node.lost(&text), expected, "{what}");
    }
    fs::remove_file(node.paths.assignment()).unwrap();
    assert_eq!(node.lost(""), Vec::<String>::new(), "nothing is assigned");
}

#[test]
fn b10_root_can_accept_exactly_this() {
    let node = Node::new();
    let one = format!("[cluster]\nname = \"my-prod\"\n{}{TLS}", nodes(&["n1"]));
    let said = node.load(&one).unwrap_err().to_string();
    assert!(said.contains("--accept-losses"), "{said}");
    let settings = config::load(&node.paths).unwrap().unwrap().settings;
    fs::write(node.paths.accepted_losses(), config::loss_identity(&settings)).unwrap();
    assert_eq!(node.lost(&one), Vec::<String>::new());
    assert_eq!(
        node.lost(&format!("[cluster]\nname = \"my-prod\"\n{}", nodes(&["n1"])))
            .len(),
        4,
        "and nothing else: {}",
        node.root.path().display()
    );
    // An unreadable assignment is unknown. It must not count as absent.
    fs::write(node.paths.assignment(), "{").unwrap();
    assert!(node.load(&one).is_err());
}

#[test]
fn the_tls_of_the_api_is_lost_only_by_an_agent_that_has_served_it() {
    let node = Node::new();
    let etcds = TLS.split_once("[etcd.client_tls]").unwrap().1;
    let without = format!(
        "[cluster]\nname = \"my-prod\"\n{}[api]\ninsecure = true\n[etcd.client_tls]{etcds}",
        nodes(&["n1", "n2", "n3"])
    );
    let said = node.load(&without).unwrap_err().to_string();
    assert!(
        said.contains("api.tls") && said.contains("--accept-losses"),
        "{said}"
    );
    for never in ["{\"tls\":false}", ""] {
        match never {
            "" => fs::remove_file(node.paths.api_record()).unwrap(),
            text => fs::write(node.paths.api_record(), text).unwrap(),
        }
        assert_eq!(node.lost(&without), Vec::<String>::new(), "{never}");
    }
    // An unreadable record is unknown. It must not count as absent.
    fs::write(node.paths.api_record(), "{").unwrap();
    assert!(node.load(&without).is_err());

    fs::write(node.paths.api_record(), "{\"tls\":true}").unwrap();
    let accept = |without_last_line: bool| {
        let settings = config::load(&node.paths).unwrap().unwrap().settings;
        let all = config::loss_identity(&settings);
        let before = all.strip_suffix("api_tls = false\n").unwrap().to_owned();
        let text = if without_last_line { before } else { all };
        fs::write(node.paths.accepted_losses(), text).unwrap();
    };
    let other_name = without.replace("my-prod", "other");
    node.lost(&other_name);
    accept(true);
    assert_eq!(
        node.lost(&other_name),
        ["api.tls"],
        "a former version accepted the other losses"
    );
    accept(false);
    assert_eq!(node.lost(&other_name), Vec::<String>::new());
    assert_eq!(node.lost(&without), ["api.tls"], "and nothing else");
}

/// Only root can move data, so only root can say that they are moved.
#[test]
fn another_data_directory_is_refused_while_the_member_has_data() {
    let node = Node::new();
    let three = format!(
        "[cluster]\nname = \"my-prod\"\n{}{TLS}",
        nodes(&["n1", "n2", "n3"])
    );
    let moved = format!("{three}[etcd]\ndata_dir = \"/disk/etcd\"\n");
    assert_eq!(node.lost(&moved), ["etcd.data_dir"]);
    let said = node.load(&moved).unwrap_err().to_string();
    assert!(
        said.contains("/var/lib/etcd/default") && said.contains("/disk/etcd"),
        "{said}"
    );
    let settings = config::load(&node.paths).unwrap().unwrap().settings;
    fs::write(node.paths.accepted_losses(), config::loss_identity(&settings)).unwrap();
    assert_eq!(node.lost(&moved), Vec::<String>::new());
    assert_eq!(
        node.lost(&moved.replace("/disk/etcd", "/other")),
        ["etcd.data_dir"]
    );

    fs::remove_file(node.paths.accepted_losses()).unwrap();
    let assigned = fs::read_to_string(node.paths.assignment()).unwrap();
    for without_data in [
        assigned.replace("\"started\":true", "\"started\":false"),
        assigned.replace("\"started\":true", "\"started\":true,\"removed\":true"),
    ] {
        fs::write(node.paths.assignment(), without_data).unwrap();
        assert_eq!(node.lost(&moved), Vec::<String>::new());
    }
}

/// Only root can move a log, so only root can say that it is moved.
#[test]
fn another_place_of_the_log_is_refused_while_the_member_has_data() {
    let node = Node::new();
    let three = format!(
        "[cluster]\nname = \"my-prod\"\n{}{TLS}",
        nodes(&["n1", "n2", "n3"])
    );
    let moved = format!("{three}[etcd]\nwal_dir = \"/disk/etcd\"\n");
    assert_eq!(node.lost(&moved), ["etcd.wal_dir"]);
    let said = node.load(&moved).unwrap_err().to_string();
    assert!(
        said.contains("member/wal") && said.contains("/disk/etcd"),
        "{said}"
    );
    let settings = config::load(&node.paths).unwrap().unwrap().settings;
    fs::write(node.paths.accepted_losses(), config::loss_identity(&settings)).unwrap();
    assert_eq!(node.lost(&moved), Vec::<String>::new());
    assert_eq!(
        node.lost(&moved.replace("/disk/etcd", "/other")),
        ["etcd.wal_dir"]
    );

    fs::remove_file(node.paths.accepted_losses()).unwrap();
    let assigned = fs::read_to_string(node.paths.assignment()).unwrap();
    for without_data in [
        assigned.replace("\"started\":true", "\"started\":false"),
        assigned.replace("\"started\":true", "\"started\":true,\"removed\":true"),
        assigned.replace("\"started\":true", "\"started\":true,\"wal_dir\":\"/disk/etcd\""),
    ] {
        fs::write(node.paths.assignment(), without_data).unwrap();
        assert_eq!(node.lost(&moved), Vec::<String>::new());
    }
    assert_eq!(
        node.lost(&three),
        ["etcd.wal_dir"],
        "back into the data directory"
    );
}
