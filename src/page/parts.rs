//! Small parts that several sections use.

use maud::{Markup, html};

use crate::model::UnixMs;
use crate::model::wording;

/// A point in time, for people and for programs.
pub(super) fn time(at: UnixMs) -> Markup {
    let text = wording::time(at);
    html! { time datetime=(text) { (text.replace('T', " ").replace('Z', " UTC")) } }
}

/// How long ago a point in time was.
pub(super) fn ago(at: UnixMs, now: UnixMs) -> Markup {
    let text = wording::time(at);
    if at > now {
        return html! { time datetime=(text) title=(text) { "in the future" } };
    }
    html! { time datetime=(text) title=(text) { (wording::age(now.since(at))) " ago" } }
}

/// A table whose rows become blocks on a narrow screen. The roles keep it a table for screen readers then.
pub(super) fn table(caption: &str, head: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        table role="table" {
            caption { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for name in head {
                        th role="columnheader" scope="col" { (name) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" {
                        @for (name, cell) in head.iter().zip(row).take(1) {
                            th role="rowheader" scope="row" data-label=(name) { (cell) }
                        }
                        @for (name, cell) in head.iter().zip(row).skip(1) {
                            td role="cell" data-label=(name) { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// A text of the agent, with what it puts between backticks as code.
pub(super) fn words(text: &str) -> Markup {
    if text.matches('`').count() % 2 == 1 {
        return html! { (text) };
    }
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A number with a comma after each group of three digits.
pub(super) fn number(of: u64) -> String {
    let digits = of.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_code() {
        let rows = [
            (
                "run `a <b>`, then `c`",
                "run <code>a &lt;b&gt;</code>, then <code>c</code>",
            ),
            ("one ` alone", "one ` alone"),
            ("", ""),
        ];
        for (text, markup) in rows {
            assert_eq!(words(text).into_string(), markup);
        }
    }

    #[test]
    fn numbers_have_groups() {
        for (of, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(number(of), text);
        }
    }
}
