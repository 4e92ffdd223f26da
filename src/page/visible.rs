//! Characters that a reader cannot see, or that change how others are shown.

/// Replaces each such character by its escape: a newline by `\n`, an escape of a terminal by `\u{1b}`. The
/// templates contain none, so what is replaced comes from a value.
pub(super) fn visible(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    for c in html.chars() {
        if is_hidden(c) {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// Control characters, and Unicode's invisible ones and those that change the direction of text (UAX 9, UTR
/// 36).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
