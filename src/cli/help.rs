//! `etcd-agent --help`: the verbs in groups, within 80 columns.

use std::fmt::Write;

use clap::Command;

/// No line of a help text is longer.
pub(super) const COLUMNS: usize = 80;
/// Where the description of a verb begins.
const INDENT: usize = 17;

/// Each verb that is not hidden, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Look", &["status", "plan", "ok-to-stop", "events"]),
    (
        "Operate",
        &[
            "pause",
            "resume",
            "restart",
            "defrag",
            "move-leader",
            "reboot-lock",
            "alarm",
            "log-level",
        ],
    ),
    ("Versions of etcd", &["upgrade", "downgrade", "move"]),
    ("Members", &["member", "spec", "bootstrap", "epoch"]),
    (
        "Backups and restore",
        &["backup", "restore", "store", "etcd-manager"],
    ),
    ("Configuration", &["config", "render", "reload"]),
    ("Host", &["init", "discard-empty", "archive", "run"]),
];

/// The command line with its verbs in groups.
pub(super) fn grouped(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}\n",
        verbs(&command)
    );
    command.help_template(template)
}

/// All verbs of the help.
#[cfg(test)]
pub(super) fn listed() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied())
}

fn verbs(command: &Command) -> String {
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for verb in *verbs {
            let about = command
                .find_subcommand(verb)
                .and_then(|verb| verb.get_about())
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(text, "{:<INDENT$}{}", format!("  {verb}"), wrapped(&about));
        }
    }
    text
}

/// The text in lines that fit next to the verbs.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut used = INDENT;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > INDENT && used + 1 + length > COLUMNS {
            let _ = write!(lines, "\n{:INDENT$}", "");
            used = INDENT;
        }
        if used > INDENT {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// Every command and subcommand, with the words before it.
    fn all(command: &Command, before: &str, found: &mut Vec<(String, Command)>) {
        let name = format!("{before}{}", command.get_name());
        for verb in command.get_subcommands() {
            all(verb, &format!("{name} "), found);
        }
        found.push((name, command.clone()));
    }

    #[test]
    fn each_verb_is_in_one_group() {
        let listed: Vec<&str> = super::listed().collect();
        let command = Cli::command();
        let shown: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(Command::get_name)
            .collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len(), "one is listed twice");
        insta::assert_snapshot!("help", Cli::whole().render_help());
    }

    #[test]
    fn no_help_is_wider_than_80_columns() {
        let mut command = Cli::whole();
        command.build();
        let mut found = Vec::new();
        all(&command, "", &mut found);
        assert!(found.len() > 40, "only {} commands were found", found.len());
        for (name, mut command) in found {
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= COLUMNS, "{name} --help: {line}");
                }
            }
        }
    }
}
