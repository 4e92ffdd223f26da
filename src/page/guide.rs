//! What each reason means and what to do: the table of `docs/reasons.md`, which is part of the program, so
//! that the page needs no network.

use maud::{Markup, html};

const TABLE: &str = include_str!("../../docs/reasons.md");

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) means: &'a str,
    pub(super) to_do: &'a str,
}

/// The rows of a code, in the order of the table. One code can have several.
pub(super) fn rows(code: &str) -> impl Iterator<Item = Row<'static>> {
    TABLE.lines().filter_map(move |line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let is_it = cells.next()?.strip_suffix('`')? == code;
        let (_kind, means, to_do) = (cells.next()?, cells.next()?, cells.next()?);
        is_it.then(|| Row {
            means: means.trim(),
            to_do: to_do.trim_end_matches('|').trim(),
        })
    })
}

/// The markup of a cell: code between backticks, emphasis, and the words of links. Their targets are pages
/// that need not be at hand.
pub(super) fn inline(cell: &str) -> Markup {
    html! {
        @for (at, part) in cell.split('`').enumerate() {
            @if at % 2 == 1 {
                code { (part) }
            } @else {
                (without_links(part))
            }
        }
    }
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((words, target)) = after.split_once("](") else {
            break;
        };
        let Some((_, after)) = target.split_once(')') else {
            break;
        };
        out.push_str(before);
        out.push_str(words);
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReasonCode;

    #[test]
    fn each_reason_has_a_meaning_and_something_to_do() {
        for code in ReasonCode::ALL {
            let found: Vec<_> = rows(code.as_str()).collect();
            assert!(!found.is_empty(), "{code}");
            for row in found {
                assert!(row.means.len() > 5 && row.to_do.len() > 5, "{code}: {row:?}");
                let text = inline(row.to_do).into_string() + &inline(row.means).into_string();
                assert!(
                    !text.contains('`') && !text.contains("](") && !text.contains("**"),
                    "{text}"
                );
            }
        }
        assert_eq!(rows("of-tomorrow").count(), 0);
    }

    #[test]
    fn cells_become_markup() {
        let cell = "see [the page](versions.md#a), **now**: `rm <file>`";
        let markup = "see the page, now: <code>rm &lt;file&gt;</code>";
        assert_eq!(inline(cell).into_string(), markup);
    }
}
