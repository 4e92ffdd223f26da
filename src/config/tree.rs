//! A TOML document in which every value has its file and line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::location::SourceLocation;
use super::problem::Problem;
use super::redact::redact;
use super::sources::Source;

/// A value and the location of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) at: Option<SourceLocation>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text(String),
    Int(i64),
    Bool(bool),
    Table(BTreeMap<String, Value>),
    /// An array of texts.
    List(Vec<String>),
    /// No field accepts these: a float, a date, an array of other values, an integer out of range.
    Other(&'static str),
}

impl Default for Value {
    fn default() -> Self {
        Self {
            at: None,
            kind: Kind::Table(BTreeMap::new()),
        }
    }
}

impl Value {
    /// Describes the value for an error, without the content of a table and without secrets.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Text(text) => format!("{:?}", redact(text)),
            Kind::Int(number) => number.to_string(),
            Kind::Bool(flag) => flag.to_string(),
            Kind::Table(_) => "a table".to_owned(),
            Kind::List(_) => "an array".to_owned(),
            Kind::Other(what) => (*what).to_owned(),
        }
    }

    /// The value at a path of keys.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| match &value.kind {
            Kind::Table(table) => table.get(*key),
            _ => None,
        })
    }

    /// Merges `over` into this value. Tables are merged by key. All other values are replaced.
    pub(super) fn merge(&mut self, over: Self) {
        match (&mut self.kind, over.kind) {
            (Kind::Table(mine), Kind::Table(theirs)) => {
                self.at = over.at.or_else(|| self.at.take());
                for (key, value) in theirs {
                    match mine.entry(key) {
                        std::collections::btree_map::Entry::Occupied(mut slot) => slot.get_mut().merge(value),
                        std::collections::btree_map::Entry::Vacant(slot) => {
                            slot.insert(value);
                        }
                    }
                }
            }
            (_, kind) => {
                *self = Self { at: over.at, kind };
            }
        }
    }
}

/// Parses one source and adds syntax errors to `problems`. Returns the part that could be parsed.
pub(super) fn parse(source: &Source, problems: &mut Vec<Problem>) -> Value {
    let lines = Lines::of(&source.text);
    let file: Arc<Path> = Arc::from(source.path.as_path());
    let at = |offset: usize| SourceLocation {
        file: Arc::clone(&file),
        line: lines.line(offset),
    };
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in errors {
        let place = error.span().map(|span| at(span.start));
        let text = error.message().replace('\n', ", ");
        let mut problem = Problem::at(place.as_ref(), "", format!("not valid TOML: {text}"));
        problem.file = Some(source.path.clone());
        problems.push(problem);
    }
    Value {
        at: None,
        kind: table_of(table.get_ref(), &at),
    }
}

fn table_of(table: &DeTable<'_>, at: &impl Fn(usize) -> SourceLocation) -> Kind {
    let entries = table.iter().map(|(key, value)| {
        let value = Value {
            at: Some(at(key.span().start)),
            kind: kind_of(value.get_ref(), at),
        };
        (key.get_ref().to_string(), value)
    });
    Kind::Table(entries.collect())
}

fn kind_of(value: &DeValue<'_>, at: &impl Fn(usize) -> SourceLocation) -> Kind {
    match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Kind::Other("an integer that is out of range"), Kind::Int),
        DeValue::Boolean(flag) => Kind::Bool(*flag),
        DeValue::Table(table) => table_of(table, at),
        DeValue::Float(_) => Kind::Other("a number with a fraction"),
        DeValue::Datetime(_) => Kind::Other("a date"),
        DeValue::Array(array) => {
            let texts = array.iter().map(|value| match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts
                .collect::<Option<Vec<_>>>()
                .map_or(Kind::Other("an array"), Kind::List)
        }
    }
}

/// Byte offset → line number.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }
    fn line(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
