//! Colours on a terminal. They only repeat what the words say.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// All is well.
    Good,
    /// Something needs a look.
    Warning,
    /// Something is wrong.
    Bad,
    /// A heading.
    Heading,
}

/// Chosen once for the process.
static ON: OnceLock<bool> = OnceLock::new();

/// Decides whether standard output gets colours.
pub(super) fn choose(when: When) {
    let terminal = std::io::stdout().is_terminal();
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let on = wanted(
        when,
        terminal,
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
    );
    let _ = ON.set(on);
}

/// <https://no-color.org>: set and not empty.
fn wanted(when: When, terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => terminal && no_color.is_none_or(str::is_empty) && term != Some("dumb"),
    }
}

/// True if standard output gets colours.
pub(super) fn on() -> bool {
    ON.get().copied().unwrap_or(false)
}

/// The text in a colour.
pub(super) fn paint(tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Warning => "33",
        Tone::Bad => "31",
        Tone::Heading => "1",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// The words of tables that have a colour wherever they stand alone in a cell.
const WORDS: &[(&str, Tone)] = &[
    ("never answered", Tone::Bad),
    ("out of reach", Tone::Bad),
    ("no leader", Tone::Bad),
    ("missing", Tone::Bad),
    ("unusable", Tone::Bad),
    ("failed", Tone::Bad),
    ("halted", Tone::Bad),
    ("BAD", Tone::Bad),
    ("UNREADABLE", Tone::Bad),
    ("FAILED", Tone::Bad),
    ("held", Tone::Warning),
    ("waits", Tone::Warning),
    ("learner", Tone::Warning),
    ("leader", Tone::Good),
];

/// A table with its head and the words of [`WORDS`] in colours. Cells are two blanks apart.
pub(super) fn table(text: &str) -> String {
    let mut painted = String::new();
    for (number, line) in text.lines().enumerate() {
        if number == 0 {
            painted.push_str(&paint(Tone::Heading, line));
        } else {
            painted.push_str(&cells(line));
        }
        painted.push('\n');
    }
    painted
}

/// A row of a table with the words of [`WORDS`] in colours.
pub(super) fn cells(line: &str) -> String {
    let cells: Vec<String> = line.split("  ").map(cell).collect();
    cells.join("  ")
}

fn cell(text: &str) -> String {
    let word = text.trim();
    let begin = word.split(" (").next().unwrap_or(word);
    match WORDS.iter().find(|(known, _)| *known == begin) {
        Some((_, tone)) => text.replacen(word, &paint(*tone, word), 1),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let auto = |terminal, no_color, term| wanted(When::Auto, terminal, no_color, term);
        assert!(auto(true, None, Some("xterm")));
        assert!(auto(true, Some(""), None), "an empty NO_COLOR says nothing");
        assert!(!auto(true, Some("1"), Some("xterm")));
        assert!(!auto(true, None, Some("dumb")));
        assert!(!auto(false, None, Some("xterm")));
        assert!(wanted(When::Always, false, Some("1"), Some("dumb")));
        assert!(!wanted(When::Never, true, None, None));
    }

    #[test]
    fn only_whole_cells_are_painted() {
        let text = table("NODE  ROLE    UNIT\nn1    leader  failed (exit-code)\nheld  x held\n");
        assert_eq!(
            text,
            "\u{1b}[1mNODE  ROLE    UNIT\u{1b}[0m\nn1    \u{1b}[32mleader\u{1b}[0m  \u{1b}[31mfailed (exit-code)\u{1b}[0m\n\
             \u{1b}[33mheld\u{1b}[0m  x held\n"
        );
    }
}
