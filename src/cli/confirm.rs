//! `--yes`, and the question on the terminal. [`Yes::ask`] is for verbs that interrupt an etcd or remove
//! something, [`Yes::require`] for those that put the cluster's data at stake or take an operator's word.

use std::io::{BufRead, IsTerminal, Write};

use super::exit::Failure;
use super::plain;

/// `--yes`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Yes {
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

impl Yes {
    /// Asks on a terminal. Without one it goes on: a script says what it wants.
    pub(super) fn ask(self, what: &str) -> Result<(), Failure> {
        if self.yes || !on_a_terminal() {
            return Ok(());
        }
        question(what)
    }

    /// Refuses where nobody can be asked, before anything is looked at. [`Yes::confirm`] asks later.
    pub(super) fn require(self, dry_run: bool, terminal: bool) -> Result<(), Failure> {
        if self.yes || dry_run || terminal {
            return Ok(());
        }
        Err(Failure::refused(
            "there is no terminal to ask on: give --yes to confirm, or --dry-run to see what would follow",
        ))
    }

    /// Asks after [`Yes::require`].
    pub(super) fn confirm(self, what: &str) -> Result<(), Failure> {
        if self.yes { Ok(()) } else { question(what) }
    }
}

/// True if somebody can be asked.
pub(super) fn on_a_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn question(what: &str) -> Result<(), Failure> {
    answered(what, &mut std::io::stderr(), &mut std::io::stdin().lock())
}

fn answered(what: &str, to: &mut impl Write, from: &mut impl BufRead) -> Result<(), Failure> {
    let mut answer = String::new();
    let asked = write!(to, "{}\nType yes to go on: ", plain::lines(what)).and_then(|()| to.flush());
    asked
        .and_then(|()| from.read_line(&mut answer))
        .map_err(|error| Failure::failed(format!("cannot ask: {error}")))?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        Err(Failure::refused("not confirmed; nothing was done"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Cli, Exit};

    #[test]
    fn only_yes_is_a_yes() {
        let answer =
            |given: &str| answered("etcd on n1 is restarted.", &mut Vec::new(), &mut given.as_bytes());
        assert_eq!(answer("yes\n"), Ok(()));
        for no in ["", "y\n", "no\n", "YES!\n"] {
            assert_eq!(answer(no).unwrap_err().exit, Exit::Refused, "{no:?}");
        }
    }

    #[test]
    fn without_a_terminal_a_word_needs_yes() {
        let no = Yes { yes: false };
        assert_eq!(no.require(false, false).unwrap_err().exit, Exit::Refused);
        assert_eq!(no.require(true, false), Ok(()), "a dry run changes nothing");
        assert_eq!(no.require(false, true), Ok(()), "it is asked later");
        assert_eq!(Yes { yes: true }.require(false, false), Ok(()));
    }

    /// All verbs that ask, each with `--yes` in the same words.
    #[test]
    fn the_verbs_that_ask_take_yes() {
        let command = Cli::command();
        for path in [
            "restart",
            "defrag",
            "upgrade",
            "downgrade",
            "move",
            "member remove",
            "backup prune",
            "backup delete",
            "archive prune",
            "etcd-manager commands delete",
            "discard-empty",
            "restore",
            "bootstrap",
            "epoch confirm",
            "spec set",
            "alarm disarm",
            "reboot-lock release",
            "config check",
        ] {
            let verb = path
                .split(' ')
                .fold(&command, |command, name| command.find_subcommand(name).unwrap());
            let yes = verb.get_arguments().find(|arg| arg.get_id() == "yes");
            let help = yes.and_then(|arg| arg.get_help()).map(ToString::to_string);
            assert_eq!(help.as_deref(), Some("Do not ask for confirmation"), "{path}");
        }
    }
}
