//! Characters that a reader cannot see, or that change how others are shown.

use crate::model::visible::{escaped, is_hidden};

/// Replaces each such character by its escape: a newline by `\n`, an escape of a terminal by `\u{1b}`. The
/// templates contain none, so what is replaced comes from a value.
pub(super) fn visible(html: &str) -> String {
    escaped(html, is_hidden).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_as_its_escape() {
        let table = [
            ("a line\nand another", "a line\\nand another"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("to the \u{202e}tfel", "to the \\u{202e}tfel"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("Grüße, 日本, 🙂", "Grüße, 日本, 🙂"),
        ];
        for (value, shown) in table {
            assert_eq!(visible(value), shown);
        }
    }
}
