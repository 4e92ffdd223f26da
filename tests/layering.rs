//! Checks of the sources: which room may use which other one (the table of `docs/architecture.md`). The
//! modules check the other rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use sources::{files, files_in};

#[path = "layering/circles.rs"]
mod circles;
#[path = "layering/documentation.rs"]
mod documentation;
#[path = "layering/forbidden.rs"]
mod forbidden;
#[path = "layering/locks.rs"]
mod locks;
#[path = "layering/sizes.rs"]
mod sizes;
#[path = "layering/sources.rs"]
mod sources;
#[path = "layering/units.rs"]
mod units;

/// Each room (a directory or a top-level file of `src/`), and the other rooms that all of its files may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("paths", &[]),
    ("bolt", &[]),
    ("etcd_versions", &["model"]),
    ("ports", &["model"]),
    ("mutant", &["model"]),
    ("plan", &["model", "mutant"]),
    ("genesis", &["model"]),
    ("config", &["model", "paths"]),
    ("render", &["model"]),
    ("telemetry", &["model"]),
    ("page", &["model"]),
    ("backup", &["ports", "model", "bolt"]),
    ("adapters", &["ports", "model", "paths", "etcd_versions"]),
    (
        "unit",
        &[
            "plan",
            "ports",
            "model",
            "paths",
            "bolt",
            "etcd_versions",
            "config",
            "render",
            "telemetry",
        ],
    ),
    (
        "agent",
        &["plan", "genesis", "backup", "ports", "model", "telemetry"],
    ),
    ("http", &["ports", "model", "page", "paths", "telemetry"]),
    (
        "cli",
        &["plan", "config", "render", "unit", "telemetry", "model", "paths"],
    ),
    ("main", &["cli"]),
    ("lib", &[]),
];

/// Additional uses that are allowed for some files, and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "adapters/disk.rs",
        &["genesis::new_record"],
        "creates an elector's first memory where it is first stored",
    ),
    (
        "adapters/etcd/",
        &["config"],
        "built from the settings, once, in agent/build.rs",
    ),
    ("adapters/s3/", &["config"], "built from the settings"),
    ("adapters/seal.rs", &["config"], "built from the settings"),
    ("adapters/store", &["config"], "built from the settings"),
    (
        "adapters/systemd/",
        &["unit"],
        "talks to the oneshots with their own request and report types",
    ),
    (
        "agent/build.rs",
        &["adapters", "config", "paths", "unit::boot"],
        "the wiring",
    ),
    (
        "agent/run.rs",
        &["config", "http", "paths"],
        "the wiring: servers, signals, reload",
    ),
    (
        "http/",
        &["adapters::tls"],
        "one TLS for serving and calling: the same files, reread together",
    ),
    ("cli/run.rs", &["agent::run"], "the daemon"),
    (
        "cli/restore_to.rs",
        &["adapters::store", "backup", "ports"],
        "fetches from the store directly: no agent needs to run",
    ),
    (
        "cli/backup.rs",
        &["backup::BackupName"],
        "finds the name of the backup in the answer to a request for one",
    ),
    (
        "cli/verify.rs",
        &["backup::Point"],
        "parses the name of a point: it verifies the full backup from which `restore latest` starts",
    ),
    (
        "cli/store.rs",
        &["adapters::store_check"],
        "tests the store directly: no agent needs to run",
    ),
    (
        "cli/discard_empty.rs",
        &["adapters::etcd", "ports"],
        "asks the distribution's etcd, which no agent manages",
    ),
    (
        "cli/backup_run.rs",
        &["agent::StandaloneBackup", "agent::run_standalone_backup"],
        "the co-process, which has no socket for the CLI",
    ),
    (
        "agent/standalone_backup.rs",
        &["adapters", "config"],
        "the wiring of the co-process",
    ),
    (
        "cli/systemd.rs",
        &["adapters::systemd"],
        "init and discard-empty ask systemd before there is an agent that manages etcd",
    ),
    (
        "unit/verify/",
        &["adapters::etcd"],
        "queries the throw-away etcd that it has started",
    ),
    (
        "unit/data/tls_files.rs",
        &["adapters::tls"],
        "reads etcd's certificates as the agent's own TLS reads them",
    ),
    (
        "unit/apply/",
        &["adapters::systemd"],
        "root's oneshot reloads systemd and reads back the settings in force, and finds out what sets them",
    ),
];

/// The directories of sources in which no files import each other in a circle.
const CRATES: &[&str] = &[
    "src",
    "tests/genesis/src",
    "tests/lab/src",
    "tests/sim/src",
    "tests/store/src",
];

/// Every `crate::room::item` in a piece of code, with groups expanded.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, word) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + word.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let end = group.find(|c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth < 0
            });
            let mut depth = 0;
            let parts = group[..end.unwrap()].split(|c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            });
            found.extend(
                parts
                    .map(|part| head(part.trim()))
                    .filter(|part| !part.is_empty()),
            );
        } else {
            found.insert(head(rest));
        }
    }
    found
}

/// The `room::item` part of a path.
fn head(path: &str) -> String {
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let path = path[..end.unwrap_or(path.len())].trim_end_matches(':');
    path.split("::").take(2).collect::<Vec<_>>().join("::")
}

fn covers(allowed: &str, used: &str) -> bool {
    used == allowed
        || used
            .strip_prefix(allowed)
            .is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn each_room_uses_only_what_it_may() {
    let mut wrong = Vec::new();
    let mut needed = BTreeSet::new();
    for file in files() {
        let room = file.room();
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(name, _)| *name == room)
            .unwrap_or_else(|| panic!("src/{room} is not in the table: add what it may use"));
        for used in uses(&file.code) {
            if covers(room, &used) || allowed.iter().any(|a| covers(a, &used)) {
                continue;
            }
            let exception = EXCEPTIONS.iter().find(|(path, extra, _)| {
                file.path.starts_with(path) && extra.iter().any(|a| covers(a, &used))
            });
            match exception {
                Some((path, extra, _)) => {
                    let extra = extra.iter().find(|a| covers(a, &used)).unwrap();
                    needed.insert((*path, *extra));
                }
                None => wrong.push(format!("src/{} uses crate::{used}", file.path)),
            }
        }
    }
    assert!(wrong.is_empty(), "layering violations:\n{}", wrong.join("\n"));
    for (path, extra, why) in EXCEPTIONS {
        assert!(!why.is_empty());
        for one in *extra {
            assert!(
                needed.contains(&(*path, *one)),
                "{path} no longer uses {one}: remove the exception"
            );
        }
    }
}

#[test]
fn no_import_circles() {
    let mut wrong = Vec::new();
    for dir in CRATES {
        let files = files_in(dir);
        let sources = files
            .iter()
            .map(|file| (file.path.as_str(), file.code.as_str()))
            .collect();
        for circle in circles::circles(&sources) {
            wrong.extend(circle.into_iter().map(|(file, uses)| {
                let uses: Vec<&str> = uses.into_iter().collect();
                format!("{dir}: {file} uses {}", uses.join(", "))
            }));
        }
    }
    assert!(
        wrong.is_empty(),
        "files import each other in a circle:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn uses_are_found() {
    let code = "use crate::model::{A, B};\nuse crate::{ports, plan::{x, y}, config::Settings as S};\nlet a = crate::unit::boot::id();";
    let found: Vec<String> = uses(code).into_iter().collect();
    assert_eq!(
        found,
        ["config::Settings", "model", "plan", "ports", "unit::boot"]
    );
}
