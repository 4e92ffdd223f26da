//! Each verb has `-o json` with a schema, or a reason why not.

use std::collections::BTreeSet;

use super::pages::verbs;

/// Verbs without `-o json`, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("run", "the daemon: its state is in `status`"),
    ("backup run", "a daemon as well"),
    ("render", "prints files of etcd, which its -o selects"),
];

/// The schemas of each verb's document.
const SCHEMAS: &[(&str, &[&str])] = &[
    ("alarm disarm", &["disarm"]),
    ("alarm list", &["alarms"]),
    ("archive list", &["archives"]),
    ("archive prune", &["change"]),
    ("backup annotate", &["change"]),
    ("backup delete", &["change"]),
    ("backup keep", &["change"]),
    ("backup list", &["backups"]),
    ("backup now", &["request"]),
    ("backup prune", &["request", "retention"]),
    ("backup show", &["backup"]),
    ("backup verify", &["backups"]),
    ("bootstrap", &["change"]),
    ("config check", &["check"]),
    ("config is-loaded", &["loaded"]),
    ("config show", &["settings"]),
    ("defrag", &["change"]),
    ("discard-empty", &["change"]),
    ("downgrade", &["change"]),
    ("epoch confirm", &["request"]),
    ("etcd-manager commands delete", &["change"]),
    ("etcd-manager commands list", &["commands"]),
    ("events", &["events"]),
    ("init", &["change"]),
    ("log-level", &["log-level"]),
    ("member add", &["change"]),
    ("member list", &["members"]),
    ("member remove", &["change"]),
    ("move", &["change"]),
    ("move-leader", &["request"]),
    ("ok-to-stop", &["ok-to-stop"]),
    ("pause", &["change"]),
    ("plan", &["plan", "after"]),
    ("reboot-lock acquire", &["request"]),
    ("reboot-lock release", &["change"]),
    ("reload", &["change"]),
    ("restart", &["change"]),
    ("restore", &["change"]),
    ("resume", &["change"]),
    ("spec get", &["spec"]),
    ("spec set", &["change"]),
    ("status", &["status", "clusters"]),
    ("store check", &["store-check"]),
    ("upgrade", &["change"]),
];

/// The schemas of answers to orders.
const ORDERS: &[&str] = &["change", "request", "disarm", "log-level", "check"];

/// The verbs that act, each with all words.
fn leaves() -> Vec<(String, clap::Command)> {
    let all = verbs().into_iter();
    all.filter(|(_, command)| command.get_subcommands().next().is_none())
        .collect()
}

#[test]
fn each_verb_prints_json_or_says_why_not() {
    let mut with = BTreeSet::new();
    for (verb, command) in leaves() {
        let output = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("output"));
        let words: BTreeSet<String> = output
            .into_iter()
            .flat_map(clap::Arg::get_possible_values)
            .map(|value| value.get_name().to_owned())
            .collect();
        let reason = WITHOUT.iter().find(|(without, _)| *without == verb);
        assert_eq!(
            words.contains("json"),
            reason.is_none(),
            "{verb}: expected -o json, or a reason"
        );
        assert_eq!(words.contains("yaml"), words.contains("json"), "{verb}: -o yaml");
        if reason.is_none() {
            with.insert(verb);
        }
    }
    let described: BTreeSet<String> = SCHEMAS.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    assert_eq!(with, described, "the verbs with -o json, and those with a schema");
}

#[test]
fn each_schema_is_documented_used_and_validated() {
    let root = env!("CARGO_MANIFEST_DIR");
    let page = include_str!("../../../docs/output.md");
    let tests = [
        include_str!("schema.rs"),
        include_str!("schema_answers.rs"),
        include_str!("../clusters.rs"),
    ]
    .concat();
    let row = |schema: &str| {
        let start = format!("| [{schema}.json](schema/{schema}.json) |");
        let row = page.lines().find(|line| line.starts_with(&start));
        row.unwrap_or_else(|| panic!("docs/output.md has no row {start}"))
    };
    for (verb, schemas) in SCHEMAS {
        for schema in *schemas {
            let row = row(schema);
            assert!(
                row.contains(&format!("`{verb}`")) || row.contains(&format!("`{verb} --")),
                "docs/output.md: {schema}.json does not name `{verb}`"
            );
            assert!(
                tests.contains(&format!("\"{schema}\"")),
                "no output is validated with {schema}"
            );
        }
    }
    for schema in ORDERS {
        let text = std::fs::read_to_string(format!("{root}/docs/schema/{schema}.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let required = value["required"].as_array().unwrap();
        assert!(required.contains(&"changed".into()), "{schema}: changed");
    }
    let used: BTreeSet<&str> = SCHEMAS
        .iter()
        .flat_map(|(_, schemas)| schemas.iter().copied())
        .collect();
    for entry in std::fs::read_dir(format!("{root}/docs/schema")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let schema = name.strip_suffix(".json").unwrap();
        assert!(
            schema == "common" || used.contains(schema),
            "{name} is of no verb"
        );
        row(schema);
    }
}
