//! Output: tables for people, JSON and YAML for programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::exit::Failure;
use super::{colour, plain};
use crate::model::UnixMs;

pub(super) use crate::model::wording::{age, size, time};

/// The version of what `-o json` and `-o yaml` print, which `docs/schema/` describes. It grows when a field
/// is renamed, removed or gets another meaning. New fields do not change it.
pub(super) const SCHEMA: u32 = 1;

/// `-o`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The `-o` option of every command that reads.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Output {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub format: Format,
}

/// An object with the version of its form.
#[derive(Debug, Serialize)]
pub(super) struct Versioned<T> {
    schema: u32,
    #[serde(flatten)]
    value: T,
}

impl<T> Versioned<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            schema: SCHEMA,
            value,
        }
    }
}

/// A list for programs: an object with the version of its form, and the list under its name.
pub(super) fn named<'a, T: Serialize>(
    name: &'static str,
    list: &'a [T],
) -> Versioned<BTreeMap<&'static str, &'a [T]>> {
    Versioned::new(BTreeMap::from([(name, list)]))
}

impl Output {
    /// Prints an object that an agent has answered, for programs with [`SCHEMA`], or as text by `human`.
    pub(super) fn print<T: Serialize + DeserializeOwned>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        print_clean(&self.text(value, human)?).map(drop)
    }

    /// What [`Output::print`] prints.
    pub(super) fn text<T: Serialize + DeserializeOwned>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<String, Failure> {
        match self.format {
            Format::Table => Ok(plain::lines(&human(&plain(value)?)).into_owned()),
            _ => self.programs(&Versioned::new(value)),
        }
    }

    /// Prints an object that this command has made. Only its message can have words of others.
    pub(super) fn print_own<T: Serialize>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => print(&human(value)),
            _ => self.for_programs(&Versioned::new(value)),
        }
    }

    /// Prints a list: [`named`] for programs, or a table by `human`.
    pub(super) fn list<T: Serialize + DeserializeOwned>(
        self,
        name: &'static str,
        list: &Vec<T>,
        human: impl FnOnce(&[T]) -> String,
    ) -> Result<(), Failure> {
        let text = self.list_text(name, list, human)?;
        if self.format == Format::Table {
            return print_table(&text);
        }
        print_clean(&text).map(drop)
    }

    /// What [`Output::list`] prints, without colours.
    pub(super) fn list_text<T: Serialize + DeserializeOwned>(
        self,
        name: &'static str,
        list: &Vec<T>,
        human: impl FnOnce(&[T]) -> String,
    ) -> Result<String, Failure> {
        match self.format {
            Format::Table => Ok(plain::lines(&human(&plain(list)?)).into_owned()),
            _ => self.programs(&named(name, list)),
        }
    }

    /// Prints JSON or YAML.
    pub(super) fn for_programs<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        print_clean(&self.programs(value)?).map(drop)
    }

    fn programs<T: Serialize>(self, value: &T) -> Result<String, Failure> {
        match self.format {
            Format::Yaml => yaml(value).map(|text| plain::lines(&text).into_owned()),
            Format::Json | Format::Table => json(value),
        }
    }
}

/// The value with all of its texts as [`plain::line`] shows them.
pub(super) fn plain<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, Failure> {
    plain::value(value).map_err(|error| Failure::failed(format!("cannot show the answer: {error}")))
}

/// JSON on several lines.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| plain::json(&text).into_owned())
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))
}

/// JSON on one line.
pub(super) fn json_line<T: Serialize>(value: &T) -> Result<String, Failure> {
    let text = serde_json::to_string(value);
    text.map(|text| plain::json(&text).into_owned())
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))
}

/// YAML. Characters that a terminal obeys are escaped as in text for people.
pub(super) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot write YAML: {error}"));
    let text = serde_saphyr::to_string(value).map_err(|error| failed(&error))?;
    if matches!(plain::lines(&text), Cow::Borrowed(_)) {
        return Ok(text);
    }
    let value = serde_json::to_value(value).map_err(|error| failed(&error))?;
    let value = plain::value(&value).map_err(|error| failed(&error))?;
    serde_saphyr::to_string(&value).map_err(|error| failed(&error))
}

/// Writes to standard output, with nothing in it that a terminal obeys. A closed pipe (`| head`) is not an
/// error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// As [`print`]; returns false when the reader has closed the pipe.
pub(super) fn print_on(text: &str) -> Result<bool, Failure> {
    print_clean(&plain::lines(text))
}

/// As [`print`], with the head and some words in colours if standard output has colours.
pub(super) fn print_table(text: &str) -> Result<(), Failure> {
    let text = plain::lines(text);
    if colour::on() && text.lines().nth(1).is_some() {
        print_clean(&colour::table(&text)).map(drop)
    } else {
        print_clean(&text).map(drop)
    }
}

/// Writes text as it is; returns false when the reader has closed the pipe.
pub(super) fn print_clean(text: &str) -> Result<bool, Failure> {
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
    fn yaml_is_the_same_value_without_what_a_terminal_obeys() {
        let value = serde_json::json!({"b": ["x: y", "1", "\u{1b}[2J\u{202e}", "a\nb"], "n": 1, "t": null});
        let text = yaml(&value).unwrap();
        assert!(matches!(plain::lines(&text), Cow::Borrowed(_)), "{text:?}");
        assert!(
            text.contains(r"\u{1b}[2J\u{202e}") || text.contains(r"\\u{1b}"),
            "{text}"
        );
        let plain = serde_json::json!({"name": "n1", "list": ["yes", "1.5", "# x", ""], "t": true});
        insta::assert_snapshot!("yaml", yaml(&Versioned::new(&plain)).unwrap());
    }

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["longer".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME    N\na       1\nlonger\n");
    }
}
