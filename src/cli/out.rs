//! Output: tables for people, JSON for programs.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;

use super::exit::Failure;
use crate::model::UnixMs;

pub(super) use crate::model::wording::{age, size, time};

/// `-o`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// The `-o` option of every command that reads.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Output {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub format: Format,
}

impl Output {
    /// Prints a value as JSON, or as text by `human`.
    pub(super) fn print<T: Serialize>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => print(&human(value)),
            Format::Json => {
                let text = serde_json::to_string_pretty(value)
                    .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
                print(&text)
            }
        }
    }
}

/// Writes to standard output. A closed pipe (`| head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// As [`print`]; returns false when the reader has closed the pipe.
pub(super) fn print_on(text: &str) -> Result<bool, Failure> {
    print_to(&mut std::io::stdout().lock(), text)
}

fn print_to(out: &mut impl Write, text: &str) -> Result<bool, Failure> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// True when standard output is a pipe whose reader has closed it. A command that follows events then ends.
pub(super) fn unread() -> bool {
    hung_up(std::io::stdout())
}

fn hung_up(out: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let ready = rustix::event::poll(&mut polled, Some(&at_once));
    ready.is_ok_and(|count| count > 0)
        && polled
            .iter()
            .any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// Columns, two spaces apart, as wide as their widest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain(head.get(column).map(|cell| cell.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// The wall clock.
pub(super) fn now() -> UnixMs {
    UnixMs(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn b16_a_reader_that_has_gone_away_is_noticed() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(print_to(&mut writer, "one"), Ok(true));
        assert!(!hung_up(&writer));
        drop(reader);
        assert!(hung_up(&writer), "before anything more is written");
        assert_eq!(print_to(&mut writer, "two"), Ok(false));
    }

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["longer".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME    N\na       1\nlonger\n");
    }
}
