//! The units and other files of the package: what they name, and what they must not allow.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each unit's name and content.
fn units() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("units");
    let mut units = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "service") {
            let text = fs::read_to_string(&path).unwrap().replace("\\\n", " ");
            units.push((path.file_name().unwrap().to_str().unwrap().to_owned(), text));
        }
    }
    assert_eq!(units.len(), 4);
    units
}

/// All values of a key of a unit.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).collect()
}

#[test]
fn h04_what_the_units_name_is_in_the_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_to_string(root.join("debian/etcd-agent.manpages")).unwrap();
    let catalog = fs::read_to_string(root.join("units/etcd-agent.catalog")).unwrap();
    let mut named: Vec<String> = Vec::new();
    for (unit, text) in units() {
        let found = values(&text, "Documentation");
        assert!(!found.is_empty(), "{unit}");
        named.extend(found.into_iter().map(str::to_owned));
    }
    let of_catalog = catalog
        .lines()
        .filter_map(|line| line.strip_prefix("Documentation: "));
    named.extend(of_catalog.map(str::to_owned));
    for page in named {
        let page = page
            .strip_prefix("man:")
            .unwrap_or_else(|| panic!("{page} is not a manual page"));
        let file = page.replace('(', ".").replace(')', "");
        assert!(
            pages.lines().any(|line| line.ends_with(&format!("/{file}"))),
            "{page}"
        );
    }
    let rules = fs::read_to_string(root.join("debian/rules")).unwrap();
    assert!(rules.contains("docs docs/*.md") && rules.contains("packaging/reasons.sh docs/reasons.md"));
}

#[test]
fn h05_the_units_start_without_etcds_package() {
    for (unit, text) in units() {
        for path in values(&text, "ReadWritePaths") {
            assert!(path.starts_with('-'), "{unit} does not start without {path}");
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let users = fs::read_to_string(root.join("units/etcd-agent.sysusers")).unwrap();
    let users: BTreeSet<&str> = users
        .lines()
        .filter_map(|line| line.strip_prefix("u ")?.split_whitespace().next())
        .collect();
    let files = fs::read_to_string(root.join("units/etcd-agent.tmpfiles")).unwrap();
    let owners = files.lines().filter(|line| line.starts_with("d "));
    for owner in owners.flat_map(|line| line.split_whitespace().skip(3).take(2)) {
        assert!(
            owner == "root" || users.contains(owner),
            "the user {owner} may not exist"
        );
    }
}

/// polkit allows the agent's user to stop etcd. Units that process a backup's data must therefore run as
/// another user and must not reach D-Bus.
#[test]
fn f11a_what_reads_backups_is_not_the_agents_user() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = fs::read_to_string(root.join("units/50-etcd-agent.rules")).unwrap();
    assert!(rules.contains("subject.user !== \"etcd-agent\""));
    let page = fs::read_to_string(root.join("docs/backup-and-restore.md")).unwrap();
    let beside = page
        .split("```ini\n")
        .find(|text| text.contains("backup run --endpoints"))
        .unwrap();
    let verify = units()
        .into_iter()
        .find(|(unit, _)| unit == "etcd-agent-verify.service")
        .unwrap();
    for text in [beside.split("```").next().unwrap(), &verify.1] {
        let user = values(text, "User");
        assert!(user.len() == 1 && user != ["etcd-agent"], "{user:?}");
        assert!(
            values(text, "InaccessiblePaths").contains(&"-/run/dbus"),
            "{text}"
        );
    }
}

#[test]
fn f11b_the_oneshots_that_are_not_roots_see_no_secrets() {
    for name in ["etcd-agent-data.service", "etcd-agent-verify.service"] {
        let (_, text) = units().into_iter().find(|(unit, _)| unit == name).unwrap();
        let hidden = values(&text, "InaccessiblePaths");
        for path in ["tls", "aws-credentials", "secret"] {
            let path = format!("-/etc/etcd-agent/{path}");
            assert!(hidden.contains(&path.as_str()), "{name}: {path}");
        }
        assert!(hidden.contains(&"-/run/etcd-agent/agent.sock"), "{name}");
    }
}

/// etcd has the user of `etcd-agent-data.service`, and may trace its processes. They must not be able to read what
/// only the agent may read.
#[test]
fn oneshots_of_other_users_read_roots_copy_of_the_configuration_and_have_no_group_of_the_agent() {
    for name in ["etcd-agent-data.service", "etcd-agent-verify.service"] {
        let (_, text) = units().into_iter().find(|(unit, _)| unit == name).unwrap();
        let groups = [values(&text, "Group"), values(&text, "SupplementaryGroups")].concat();
        assert!(!groups.contains(&"etcd-agent"), "{name}: {groups:?}");
        let before = values(&text, "ExecStartPre");
        assert_eq!(before, ["-!/usr/bin/etcd-agent", "copy-config"], "{name}");
        assert_eq!(values(&text, "PrivateTmp"), ["yes"], "{name}");
        let without = ["CapabilityBoundingSet=\n", "AmbientCapabilities=\n"];
        assert!(without.iter().all(|line| text.contains(line)), "{name}");
    }
}

#[test]
fn f11c_no_unit_dumps_core_or_takes_all_memory() {
    for (unit, text) in units() {
        assert_eq!(values(&text, "LimitCORE"), ["0"], "{unit}");
        assert_eq!(values(&text, "MemoryMax").len(), 1, "{unit}");
    }
}

/// The ports of the packages' service for firewalld are those that the manual page has as defaults.
#[test]
fn the_service_of_firewalld_has_the_agents_port() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let service = fs::read_to_string(root.join("packaging/firewalld/etcd-agent.xml")).unwrap();
    let ports: Vec<&str> = service
        .split(" port=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(ports.len(), 1, "{service}");
    let page = fs::read_to_string(root.join("docs/man/etcd-agent.toml.5")).unwrap();
    assert!(page.contains(&format!("[::]:{}", ports[0])), "{ports:?}");
    for place in ["debian/rules", "packaging/rpm/etcd-agent.spec"] {
        let text = fs::read_to_string(root.join(place)).unwrap();
        assert!(text.contains("packaging/firewalld/etcd-agent.xml"), "{place}");
    }
}
