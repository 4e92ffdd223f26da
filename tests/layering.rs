//! Checks of the sources: which room may use which other one (the table of `docs/architecture.md`), and rules
//! for all files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use etcd_agent::model::ReasonCode;

#[path = "layering/circles.rs"]
mod circles;

/// Each room (a directory or a top-level file of `src/`), and the other rooms that all of its files may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("paths", &[]),
    ("bolt_meta", &[]),
    ("ports", &["model"]),
    ("mutant", &["model"]),
    ("plan", &["model", "mutant"]),
    ("genesis", &["model"]),
    ("config", &["model", "paths"]),
    ("render", &["model"]),
    ("telemetry", &["model"]),
    ("backup", &["ports", "model", "bolt_meta"]),
    ("adapters", &["ports", "model", "paths"]),
    (
        "unit",
        &[
            "ports",
            "model",
            "paths",
            "bolt_meta",
            "config",
            "render",
            "telemetry",
        ],
    ),
    (
        "agent",
        &["plan", "genesis", "backup", "ports", "model", "telemetry"],
    ),
    ("http", &["ports", "model", "paths", "telemetry"]),
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
        "agent/context.rs",
        &["adapters::tls"],
        "shows when the API's certificate expires, and rereads it",
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
        "init asks systemd two questions before there is an agent",
    ),
    (
        "unit/verify/",
        &["adapters::etcd"],
        "queries the throw-away etcd that it has started",
    ),
    (
        "unit/apply/",
        &["adapters::systemd"],
        "root's oneshot reloads systemd and reads back the settings in force",
    ),
];

/// The pure rooms.
const PURE: &[&str] = &["plan/", "genesis/", "model/"];
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "no runtime"),
    ("async ", "no waiting"),
    (".await", "no waiting"),
    ("futures::", "no waiting"),
    ("std::fs", "no disk"),
    ("std::net::Tcp", "no network"),
    ("std::net::Udp", "no network"),
    ("std::env", "no environment"),
    ("std::process", "no processes"),
    ("std::thread", "no threads"),
    ("Instant", "time is a field of the observation"),
    ("SystemTime", "time is a field of the observation"),
    ("rand::", "randomness is a field of the observation"),
    ("HashMap", "maps are ordered"),
    ("HashSet", "maps are ordered"),
    ("tracing", "reasons are values; the loop logs them"),
    ("println!", "reasons are values"),
    ("unwrap()", "what cannot be is a halt"),
    ("panic!", "what cannot be is a halt"),
    ("unreachable!", "what cannot be is a halt"),
];

/// The maximum number of lines. A longer file probably has more than one purpose.
const MOST_LINES: usize = 600;

struct File {
    /// The path below `src/`.
    path: String,
    /// The code without comments and without the tests at the end of the file.
    code: String,
    lines: usize,
}

impl File {
    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Every source file except files of tests.
fn files() -> Vec<File> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        let is_test = name.split('/').any(|part| part == "tests")
            || name.ends_with("tests.rs")
            || name.ends_with("testing.rs");
        if is_test {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.find("\nmod tests {").map_or(text.as_str(), |at| &text[..at]);
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        files.push(File {
            path: name,
            lines: text.lines().count(),
            code: code.join("\n"),
        });
    }
    assert!(files.len() > 100, "the sources were not found");
    files
}

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
    let files = files();
    let sources = files
        .iter()
        .map(|file| (file.path.as_str(), file.code.as_str()))
        .collect();
    let mut wrong = Vec::new();
    for circle in circles::circles(&sources) {
        wrong.extend(circle.into_iter().map(|(file, uses)| {
            let uses: Vec<&str> = uses.into_iter().collect();
            format!("{file} uses {}", uses.join(", "))
        }));
    }
    assert!(
        wrong.is_empty(),
        "files import each other in a circle:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_pure_rooms_are_pure() {
    let mut wrong = Vec::new();
    for file in files() {
        if !PURE.iter().any(|room| file.path.starts_with(room)) {
            continue;
        }
        for (word, why) in IMPURE {
            if file.code.contains(word) {
                wrong.push(format!("src/{} says `{word}`: {why}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn systemd_is_asked_over_d_bus_only() {
    for file in files() {
        for program in ["systemctl", "systemd-run", "journalctl", "busctl"] {
            for maker in ["Command::new", "Cmd::new"] {
                assert!(
                    !file.code.contains(&format!("{maker}(\"{program}")),
                    "src/{} runs {program}",
                    file.path
                );
            }
        }
        // The agent runs only these programs: etcdutl or etcdctl as the data directory's owner, and both of
        // them and etcd to verify a backup. Each runs in its own oneshot.
        let may_run = ["unit/data/tool.rs", "unit/verify/throwaway.rs"];
        assert!(
            !file.code.contains("Command::new") || may_run.contains(&file.path.as_str()),
            "src/{} runs a program",
            file.path
        );
    }
}

#[test]
fn a_file_is_one_room() {
    for file in files() {
        assert!(
            file.lines <= MOST_LINES,
            "src/{} has {} lines, more than {MOST_LINES}: split it by purpose",
            file.path,
            file.lines
        );
    }
}

#[test]
fn main_is_wiring() {
    let main = files().into_iter().find(|file| file.path == "main.rs").unwrap();
    assert!(main.lines <= 30, "main.rs has {} lines", main.lines);
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

#[test]
fn every_reason_code_is_explained() {
    let page: BTreeSet<String> = reasons().into_iter().collect();
    let codes: BTreeSet<String> = ReasonCode::ALL.iter().map(ToString::to_string).collect();
    let missing: Vec<&String> = codes.symmetric_difference(&page).collect();
    assert!(
        missing.is_empty(),
        "docs/reasons.md or ReasonCode lacks {missing:?}"
    );
    let plan: String = files()
        .into_iter()
        .filter(|file| file.path.starts_with("plan/"))
        .map(|file| file.code)
        .collect();
    for code in ReasonCode::ALL {
        let given = format!("ReasonCode::{code:?}");
        assert!(plan.contains(&given), "no reason is given as {given}");
    }
}

/// Paths in backticks must exist. Words with an underscore must be functions or tests. If the page says that
/// a function is in a file, it must be in that file.
#[test]
fn the_safety_page_names_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/safety.md")).unwrap();
    let mut sources = Vec::new();
    walk(&root.join("src"), &mut sources);
    walk(&root.join("tests"), &mut sources);
    let code: String = sources
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut missing = BTreeSet::new();
    let mut names = 0;
    for word in page.split('`').skip(1).step_by(2) {
        let is_name = word.contains('_')
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_path = word.starts_with("src/") || word.starts_with("tests/");
        names += usize::from(is_name);
        let there = (!is_name
            || ["(", "<"]
                .iter()
                .any(|end| code.contains(&format!("fn {word}{end}"))))
            && (!is_path || root.join(word).exists());
        if !there {
            missing.insert(word);
        }
    }
    assert!(missing.is_empty(), "docs/safety.md names {missing:?}");
    assert!(names > 60, "only {names} names were found");
    for (at, _) in page.match_indices("` in `src/") {
        let name = page[..at].rsplit('`').next().unwrap();
        let file = page[at + "` in `".len()..].split('`').next().unwrap();
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(
            text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")),
            "{file} has no function {name}"
        );
    }
}

/// The reason codes of the page. Each has a table row.
fn reasons() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reasons.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

#[test]
fn h04_the_manual_page_of_reasons_has_them_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = std::process::Command::new(root.join("packaging/reasons.sh"))
        .arg(root.join("docs/reasons.md"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let page = String::from_utf8(made.stdout).unwrap().replace("\\-", "-");
    let codes = reasons();
    assert!(codes.len() > 100, "only {} reasons were found", codes.len());
    for code in &codes {
        assert!(page.contains(&format!("\n.TP\n.BR {code} \" (")), "{code}");
    }
    assert_eq!(page.matches("\n.TP\n").count(), codes.len());
    assert!(!page.contains('`') && !page.contains("](") && !page.contains("**"));
    // roff would take a line that begins with an apostrophe for a request.
    assert!(page.lines().all(|line| !line.starts_with('\'')));
}

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

#[test]
fn f11c_no_unit_dumps_core_or_takes_all_memory() {
    for (unit, text) in units() {
        assert_eq!(values(&text, "LimitCORE"), ["0"], "{unit}");
        assert_eq!(values(&text, "MemoryMax").len(), 1, "{unit}");
    }
}
