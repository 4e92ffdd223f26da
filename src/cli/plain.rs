//! Text of other nodes, of stores and of etcd, shown as text: nothing in it moves a terminal's cursor,
//! recolours or reorders what is shown, or begins a new line.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::visible::{escaped, is_hidden};

/// One line, with `\n` and `\u{1b}` in the place of such characters.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// As [`line`], but line ends stay.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_hidden(c))
}

/// The same value, all of its texts as [`line`] shows them. Values of checked types, such as names of nodes,
/// have no such characters. A value that cannot be copied so is not shown.
pub(super) fn value<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, serde_json::Error> {
    let mut copy = serde_json::to_value(value)?;
    walk(&mut copy);
    serde_json::from_value(copy)
}

fn walk(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(plain) = line(text) {
                *text = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(walk),
        Value::Object(fields) => {
            let own = std::mem::take(fields);
            for (name, mut item) in own {
                walk(&mut item);
                fields.insert(line(&name).into_owned(), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// JSON with `\u001b` in the place of such characters, which only strings can have: the same value.
pub(super) fn json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c != '\n' && is_hidden(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(line("n1: größer, 日本 → ok"), "n1: größer, 日本 → ok");
        assert_eq!(line("\u{1b}[2J"), "\\u{1b}[2J");
        assert_eq!(
            line("one\ntwo\r\tthree\u{7f}\u{9b}"),
            "one\\ntwo\\r\\tthree\\u{7f}\\u{9b}"
        );
        assert_eq!(
            line("a\u{202e}b\u{2066}c\u{200b}"),
            "a\\u{202e}b\\u{2066}c\\u{200b}"
        );
        assert_eq!(lines("one\ntwo\u{1b}]0;x\u{7}"), "one\ntwo\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn json_stays_the_same_value() {
        let text = "a\u{1b}\u{9b}\u{202e}\u{e0041}\n<b>";
        let made = serde_json::to_string(text).unwrap();
        let plain = json(&made);
        assert!(!plain.contains(is_hidden), "{plain:?}");
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), text);
    }

    #[test]
    fn all_texts_of_a_value_are_lines() {
        let nested = serde_json::json!({"a\n": ["\u{1b}", {"b": "x\ny"}], "n": 1});
        let plain: Value = value(&nested).unwrap();
        assert_eq!(
            plain,
            serde_json::json!({"a\\n": ["\\u{1b}", {"b": "x\\ny"}], "n": 1})
        );
    }
}
