//! A field of the configuration: its path in a file, the parser of its value, and its value if no file sets
//! it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;

use super::settings::Settings;
use super::tree::Value;
use crate::model::{BackupFormat, Join};

/// Parses a value. An error says what was found and what is expected.
pub(super) type Parse<T> = fn(&Value) -> Result<T, String>;
/// Parses an entry of a table with arbitrary keys.
pub(super) type ParseEntry<K, T> = fn(&str, &Value) -> Result<(K, T), String>;

/// The common part of fields of all types.
pub(super) trait AnyField {
    /// The path of the field, e.g. `cluster.size`.
    fn key(&self) -> &'static str;

    /// Checks a value. An error says what is wrong.
    fn check(&self, value: &Value) -> Result<(), String>;

    /// If the field is a table with arbitrary keys: the form of an entry and the check of each entry.
    fn entries(&self) -> Option<(&'static str, &dyn CheckEntry)> {
        None
    }

    /// The values in force if no file sets the field, with their paths. Empty if the field has no value then.
    fn when_unset(&self, settings: &Settings) -> Vec<(String, Json)>;

    /// The default, if it is the same for every configuration.
    #[cfg(test)]
    fn fixed_default(&self) -> Option<Json> {
        None
    }
}

/// Checks one entry of a table with arbitrary keys.
pub(super) trait CheckEntry {
    /// Checks an entry. An error says what is wrong.
    fn check_entry(&self, key: &str, value: &Value) -> Result<(), String>;
}

/// A field without a fixed default.
pub(super) struct Optional<T: 'static> {
    pub(super) key: &'static str,
    pub(super) parse: Parse<T>,
    in_force: fn(&Settings) -> Option<Json>,
}

impl<T> Optional<T> {
    pub(super) const fn new(key: &'static str, parse: Parse<T>) -> Self {
        Self {
            key,
            parse,
            in_force: |_| None,
        }
    }

    /// Sets what `config show` prints if no file sets the field.
    pub(super) const fn in_force(mut self, in_force: fn(&Settings) -> Option<Json>) -> Self {
        self.in_force = in_force;
        self
    }
}

impl<T> AnyField for Optional<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn check(&self, value: &Value) -> Result<(), String> {
        (self.parse)(value).map(drop)
    }
    fn when_unset(&self, settings: &Settings) -> Vec<(String, Json)> {
        let value = (self.in_force)(settings);
        value
            .into_iter()
            .map(|value| (self.key.to_owned(), value))
            .collect()
    }
}

/// A field with a fixed default.
pub(super) struct Defaulted<T: 'static> {
    pub(super) key: &'static str,
    pub(super) parse: Parse<T>,
    pub(super) default: fn() -> T,
    shown: fn(&Settings) -> bool,
}

impl<T> Defaulted<T> {
    pub(super) const fn new(key: &'static str, parse: Parse<T>, default: fn() -> T) -> Self {
        Self {
            key,
            parse,
            default,
            shown: |_| true,
        }
    }

    /// Sets the condition under which `config show` prints the default. Without this call it always prints
    /// the default.
    pub(super) const fn shown_if(mut self, shown: fn(&Settings) -> bool) -> Self {
        self.shown = shown;
        self
    }
}

impl<T: ToJson> AnyField for Defaulted<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn check(&self, value: &Value) -> Result<(), String> {
        (self.parse)(value).map(drop)
    }
    fn when_unset(&self, settings: &Settings) -> Vec<(String, Json)> {
        if (self.shown)(settings) {
            vec![(self.key.to_owned(), (self.default)().to_json())]
        } else {
            Vec::new()
        }
    }
    #[cfg(test)]
    fn fixed_default(&self) -> Option<Json> {
        Some((self.default)().to_json())
    }
}

/// A table with arbitrary keys.
pub(super) struct Table<K: 'static, T: 'static> {
    pub(super) key: &'static str,
    /// The form of an entry, for error messages.
    form: &'static str,
    pub(super) parse: ParseEntry<K, T>,
    in_force: fn(&Settings) -> Vec<(String, Json)>,
}

impl<K, T> Table<K, T> {
    pub(super) const fn new(key: &'static str, form: &'static str, parse: ParseEntry<K, T>) -> Self {
        Self {
            key,
            form,
            parse,
            in_force: |_| Vec::new(),
        }
    }

    /// Sets the entries that `config show` prints if no file has the table.
    pub(super) const fn in_force(mut self, in_force: fn(&Settings) -> Vec<(String, Json)>) -> Self {
        self.in_force = in_force;
        self
    }
}

impl<K, T> CheckEntry for Table<K, T> {
    fn check_entry(&self, key: &str, value: &Value) -> Result<(), String> {
        (self.parse)(key, value).map(drop)
    }
}

impl<K, T> AnyField for Table<K, T> {
    fn key(&self) -> &'static str {
        self.key
    }
    /// Accepts the table. Its entries are checked one by one.
    fn check(&self, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn entries(&self) -> Option<(&'static str, &dyn CheckEntry)> {
        Some((self.form, self))
    }
    fn when_unset(&self, settings: &Settings) -> Vec<(String, Json)> {
        let entries = (self.in_force)(settings).into_iter();
        entries
            .map(|(key, value)| (format!("{}.{key}", self.key), value))
            .collect()
    }
}

/// A default as `config show` prints it.
pub(super) trait ToJson {
    /// Its JSON.
    fn to_json(&self) -> Json;
}

impl ToJson for bool {
    fn to_json(&self) -> Json {
        (*self).into()
    }
}

impl ToJson for u16 {
    fn to_json(&self) -> Json {
        (*self).into()
    }
}

impl ToJson for usize {
    fn to_json(&self) -> Json {
        (*self).into()
    }
}

impl ToJson for Vec<String> {
    fn to_json(&self) -> Json {
        self.as_slice().into()
    }
}

impl ToJson for Duration {
    fn to_json(&self) -> Json {
        duration_json(*self)
    }
}

impl ToJson for PathBuf {
    fn to_json(&self) -> Json {
        self.display().to_string().into()
    }
}

impl ToJson for Join {
    fn to_json(&self) -> Json {
        self.as_str().into()
    }
}

impl ToJson for BackupFormat {
    fn to_json(&self) -> Json {
        self.as_str().into()
    }
}

/// A duration in the form that people write in a file.
pub(super) fn duration_json(time: Duration) -> Json {
    humantime::format_duration(time).to_string().into()
}
