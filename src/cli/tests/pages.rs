//! The manual pages of the verbs, `docs/man/etcd-agent-VERB.8`, and the completions in
//! `packaging/completions/` are made from the command line, and packages contain them as they are here.
//! `INSTA_UPDATE=always` makes them again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::cli::{Cli, help};
use crate::testing::kept;

const MAIN: &str = include_str!("../../../docs/man/etcd-agent.8");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command line as a user sees it, with all names built.
fn command() -> Command {
    let mut command = Cli::whole().disable_help_subcommand(true);
    command.build();
    command
}

/// Each command that is not hidden, by its words after `etcd-agent`.
fn all(command: &Command, before: &str, found: &mut BTreeMap<String, Command>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{before}{}", verb.get_name());
        all(verb, &format!("{name} "), found);
        found.insert(name, verb.clone());
    }
}

pub(super) fn verbs() -> BTreeMap<String, Command> {
    let mut found = BTreeMap::new();
    all(&command(), "", &mut found);
    assert!(found.len() > 40, "only {} commands were found", found.len());
    found
}

/// The items of the main page, by the words with which they begin.
fn details() -> BTreeMap<String, String> {
    let known: Vec<String> = verbs().into_keys().collect();
    let body = MAIN.split("\n.SH COMMANDS\n").nth(1).unwrap();
    let body = body.split("\n.SH ").next().unwrap();
    // A section's own text belongs to no item.
    let mut of_item = false;
    let mut items = String::new();
    for line in body.lines() {
        of_item = line == ".TP" || of_item && !line.starts_with(".SS ");
        if of_item {
            let _ = write!(items, "\n{line}");
        }
    }
    let mut details: BTreeMap<String, String> = BTreeMap::new();
    let mut last: Vec<String> = Vec::new();
    for item in items.split("\n.TP\n").skip(1) {
        let tag = plain(item.lines().next().unwrap());
        let mut of: Vec<String> = known
            .iter()
            .filter(|verb| tag == **verb || tag.starts_with(&format!("{verb} ")))
            .cloned()
            .collect();
        // "spec set" and not "spec".
        let longest = of.iter().map(String::len).max().unwrap_or(0);
        of.retain(|verb| verb.len() == longest);
        if tag.starts_with("etcd-manager") {
            of = known
                .iter()
                .filter(|verb| verb.starts_with("etcd-manager commands "))
                .cloned()
                .collect();
        }
        if of.is_empty() {
            assert!(tag.starts_with("--"), "the item {tag:?} is of no verb");
        } else {
            last = of;
        }
        for verb in &last {
            let _ = write!(details.entry(verb.clone()).or_default(), ".TP\n{item}\n");
        }
    }
    details
}

/// The words of a line of roff.
fn plain(line: &str) -> String {
    let mut text = line.replace("\\-", "-").replace("\\(dq", "\"");
    for mark in ["\\fB", "\\fI", "\\fP", "\""] {
        text = text.replace(mark, "");
    }
    for request in [".BR ", ".BI ", ".B ", ".I "] {
        if let Some(rest) = text.strip_prefix(request) {
            text = rest.trim_start().to_owned();
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn page_name(verb: &str) -> String {
    format!("etcd-agent-{}.8", verb.replace(' ', "-"))
}

/// A reference to a manual page.
fn reference(verb: &str) -> String {
    let name = format!("etcd-agent-{}", verb.replace(' ', "-"));
    format!(".BR {} (8)", name.replace('-', "\\-"))
}

fn page(verb: &str, command: &Command, details: Option<&String>) -> String {
    let name = page_name(verb);
    let man = Man::new(command.clone())
        .title(name.trim_end_matches(".8").to_uppercase())
        .section("8")
        .date("")
        .source("etcd-agent")
        .manual("System Administration");
    let mut made: Vec<u8> = Vec::new();
    man.render_title(&mut made).unwrap();
    man.render_name_section(&mut made).unwrap();
    man.render_synopsis_section(&mut made).unwrap();
    man.render_description_section(&mut made).unwrap();
    man.render_options_section(&mut made).unwrap();
    let mut text = String::from_utf8(made).unwrap();
    if let Some(details) = details {
        let _ = write!(text, ".SH DETAILS\n{details}");
    }
    let mut related: Vec<String> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|inner| reference(&format!("{verb} {}", inner.get_name())))
        .collect();
    related.extend(verb.rsplit_once(' ').map(|(outer, _)| reference(outer)));
    related.push(".BR etcd\\-agent (8)".to_owned());
    related.push(".BR etcd\\-agent.toml (5)".to_owned());
    related.push(".BR etcd\\-agent\\-reasons (7)".to_owned());
    let _ = writeln!(
        text,
        ".SH \"EXIT STATUS\"\nSee\n.BR etcd\\-agent (8).\n.SH \"SEE ALSO\"\n{}",
        related.join(",\n")
    );
    // clap_mangen writes an empty date as nothing, and defines the apostrophe in each section again.
    let text = text.replacen(" 8  etcd-agent", " 8 \"\" etcd-agent", 1);
    let mut page = String::new();
    for (number, line) in text.lines().enumerate() {
        let is_again = number > 1 && (line.starts_with(".ie \\n(.g") || line.starts_with(".el .ds Aq"));
        if !is_again {
            let _ = writeln!(page, "{}", line.trim_end());
        }
    }
    page
}

/// The command line without what is hidden: completions name everything else.
fn completed() -> Command {
    let all = Cli::whole();
    Command::new("etcd-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .args(
            all.get_arguments()
                .filter(|option| !option.is_hide_set())
                .cloned(),
        )
        .subcommands(all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned())
}

fn completions() -> [(PathBuf, Shell); 3] {
    let dir = root().join("packaging/completions");
    [
        (dir.join("etcd-agent.bash"), Shell::Bash),
        (dir.join("_etcd-agent"), Shell::Zsh),
        (dir.join("etcd-agent.fish"), Shell::Fish),
    ]
}

/// What clap makes for this shell.
fn completion(shell: Shell) -> String {
    let mut made = Vec::new();
    generate(shell, &mut completed(), "etcd-agent", &mut made);
    let made = String::from_utf8(made).unwrap();
    // It writes two names of a program with a hyphen, and bash then completes no verb's words:
    // https://github.com/clap-rs/clap/issues/6421
    made.replace("etcd__subcmd__agent", "etcd__agent")
}

#[test]
fn each_verb_has_a_manual_page() {
    let details = details();
    let dir = root().join("docs/man");
    let mut expected = vec!["etcd-agent.8".to_owned(), "etcd-agent-reasons.7".to_owned()];
    for (verb, command) in verbs() {
        let made = page(&verb, &command, details.get(&verb));
        kept(&dir.join(page_name(&verb)), &made);
        expected.push(page_name(&verb));
        if command.get_subcommands().next().is_none() {
            assert!(
                details.contains_key(&verb),
                "etcd-agent.8 does not describe {verb}"
            );
        }
        let shown = made.replace("\\-", "-");
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let name = option.get_long().map(|long| format!("--{long}"));
            let name = name.unwrap_or_else(|| option.get_value_names().unwrap()[0].to_string());
            assert!(shown.contains(&name), "{}: {name}", page_name(&verb));
        }
    }
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name.ends_with(".toml.5") || expected.contains(&name),
            "{name} is of no verb"
        );
    }
}

#[test]
fn the_main_page_names_the_others() {
    let page = MAIN.replace("\\-", "-");
    for verb in help::listed() {
        assert!(
            page.contains(&format!(".BR etcd-agent-{verb} (8)")),
            "SEE ALSO lacks {verb}"
        );
    }
}

#[test]
fn shells_complete_each_flag() {
    for (path, shell) in completions() {
        let made = completion(shell);
        kept(&path, &made);
        assert!(
            !made.contains("verify-restore"),
            "{}: what is hidden is completed",
            path.display()
        );
        for (verb, command) in verbs() {
            let last = verb.rsplit(' ').next().unwrap();
            assert!(made.contains(last), "{}: {verb}", path.display());
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let Some(long) = option.get_long() else { continue };
                let flag = match shell {
                    Shell::Fish => format!("-l {long}"),
                    _ => format!("--{long}"),
                };
                assert!(made.contains(&flag), "{}: {verb} {flag}", path.display());
            }
        }
    }
}
