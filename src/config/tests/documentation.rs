//! Checks the manual page and the guide against the table of fields.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::fields::FIELDS;

const MANUAL: &str = include_str!("../../../docs/man/etcd-agent.toml.5");
const GUIDE: &str = include_str!("../../../docs/configuration.md");

/// The text of the manual page without roff's escapes.
fn plain(text: &str) -> String {
    text.replace("\\(dq", "\"").replace("\\-", "-")
}

/// The words of a line, without the roff request at its beginning.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || ",\"()".contains(c));
    words.filter(|word| !word.is_empty() && !word.starts_with('.'))
}

/// The paragraph of each field: the paragraphs after `.TP`, and the list of keys of `[store.copy]`.
fn paragraphs() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let section = MANUAL.split(".SH DESCRIPTION").nth(1).unwrap();
    let section = section.split(".SH EXAMPLE").next().unwrap();
    for part in section.split("\n.SH ").flat_map(|part| part.split("\n.SS ")) {
        // A heading directly before another heading has no text.
        let Some((title, body)) = part.split_once('\n') else {
            continue;
        };
        let named = title
            .split(", ")
            .filter_map(|name| name.strip_prefix('[')?.strip_suffix(']'));
        let tables: Vec<&str> = named.collect();
        for paragraph in body
            .split("\n.TP\n")
            .skip(usize::from(!body.starts_with(".TP\n")))
        {
            let paragraph = paragraph.trim_start_matches(".TP\n");
            let keys = paragraph.lines().next().unwrap();
            for (table, key) in tables
                .iter()
                .flat_map(|table| words(keys).map(move |key| (table, key)))
            {
                let field = match key.strip_prefix('[').and_then(|key| key.strip_suffix(']')) {
                    Some(whole) => whole.to_owned(),
                    None => format!("{table}.{key}"),
                };
                found.insert(field, plain(paragraph));
            }
        }
        if tables == ["store.copy"] {
            let list = body.split("\nas in").next().unwrap();
            for key in words(list.lines().nth(1).unwrap()).filter(|word| *word != "and") {
                found.insert(format!("store.copy.{key}"), String::new());
            }
        }
    }
    found
}

#[test]
fn the_manual_page_has_each_field_and_no_other() {
    let documented: BTreeSet<String> = paragraphs().into_keys().collect();
    let fields: BTreeSet<String> = FIELDS.iter().map(|field| field.key().to_owned()).collect();
    let missing: Vec<_> = fields.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&fields).collect();
    assert!(missing.is_empty(), "etcd-agent.toml.5 lacks {missing:?}");
    assert!(
        unknown.is_empty(),
        "etcd-agent.toml.5 has {unknown:?}, which are no fields"
    );
}

#[test]
fn the_manual_page_states_the_defaults() {
    let paragraphs = paragraphs();
    for field in FIELDS {
        let Some(default) = field.fixed_default() else {
            continue;
        };
        // `config show` prints 7 days as "7days".
        let default = match default.as_str() {
            Some(text) => format!("\"{}\"", text.replace("days", "d")),
            None => default.to_string(),
        };
        let paragraph = &paragraphs[field.key()];
        let is_default_of_bool = default == "false" && !paragraph.contains("Default true");
        assert!(
            is_default_of_bool || paragraph.contains(&default),
            "{}: the default {default} is not in: {paragraph}",
            field.key()
        );
    }
}

#[test]
fn the_fields_that_the_guide_names_exist() {
    let tables: BTreeSet<&str> = FIELDS
        .iter()
        .filter_map(|field| field.key().split('.').next())
        .collect();
    for word in GUIDE.split('`').skip(1).step_by(2) {
        let is_path = word.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
        let Some((table, _)) = word.split_once('.').filter(|_| is_path) else {
            continue;
        };
        if tables.contains(table) && ![".toml", ".json"].iter().any(|ending| word.ends_with(ending)) {
            let known = FIELDS.iter().any(|field| {
                field.key() == word
                    || field
                        .key()
                        .strip_prefix(word)
                        .is_some_and(|rest| rest.starts_with('.'))
            });
            assert!(known, "docs/configuration.md names {word}, which is no field");
        }
    }
}
