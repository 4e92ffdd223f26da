//! The last starts of etcd in this boot and how each ended, from the journal of `etcd.service`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::last_words::{Word, understand};
use super::tool;
use crate::model::LastWords;

/// Two failing starts log some fifty lines each; before them are lines of a serving etcd.
const LINES: &str = "--lines=600";
/// journalctl cuts off fields at 4 KiB each.
const MOST_BYTES: usize = 8 << 20;
const WITHIN: Duration = Duration::from_secs(20);

/// One start of etcd, and every fatal message in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Start {
    invocation: String,
    words: Vec<Word>,
}

/// The starts in which etcd logged something, oldest first; none if the journal cannot be read.
pub(super) fn of_this_boot() -> Vec<Start> {
    let args = [
        "--quiet",
        "--no-pager",
        "--boot",
        "--unit=etcd.service",
        "--output=json",
        "--output-fields=MESSAGE,_SYSTEMD_INVOCATION_ID",
        LINES,
    ];
    let said = tool::output(
        Path::new("/usr/bin/journalctl"),
        &args.map(str::to_owned),
        WITHIN,
        MOST_BYTES,
    );
    match said {
        Ok(said) => parse(&said.text),
        Err(why) => {
            crate::unit::journal::say(&format!("etcd's last words are not known: {why}"));
            Vec::new()
        }
    }
}

/// One line of the journal.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "MESSAGE")]
    message: serde_json::Value,
    /// `None` for systemd's own messages about the unit.
    #[serde(rename = "_SYSTEMD_INVOCATION_ID")]
    invocation: Option<String>,
}

/// One log line of etcd (zap's JSON encoder).
#[derive(Deserialize)]
struct Line {
    level: String,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    error: String,
}

/// Parses the output of `journalctl --output=json`. Lines of the gate are not etcd's: a start counts only
/// once etcd has logged something.
fn parse(text: &str) -> Vec<Start> {
    let mut starts: Vec<Start> = Vec::new();
    for line in text.lines() {
        let Ok(Entry {
            message: serde_json::Value::String(message),
            invocation: Some(invocation),
        }) = serde_json::from_str(line)
        else {
            continue;
        };
        let spoken: Option<Line> = serde_json::from_str(&message).ok();
        let known = starts.iter().position(|start| start.invocation == invocation);
        let start = match (known.and_then(|at| starts.get_mut(at)), &spoken) {
            (Some(start), _) => start,
            (None, Some(_)) => {
                starts.push(Start {
                    invocation,
                    words: Vec::new(),
                });
                let Some(start) = starts.last_mut() else {
                    continue;
                };
                start
            }
            (None, None) => continue,
        };
        match spoken {
            Some(line) if matches!(line.level.as_str(), "fatal" | "panic" | "dpanic") => {
                start.words.push(Word {
                    message: line.msg,
                    error: line.error,
                });
            }
            None if message.starts_with("panic: ") || message.starts_with("fatal error: ") => {
                start.words.push(Word {
                    message,
                    error: String::new(),
                });
            }
            _ => {}
        }
    }
    starts
}

/// The trouble that the last start ended with, and how many starts in a row ended with the same trouble. Of
/// the messages of one start the first that is understood counts.
pub(super) fn last_words(starts: &[Start]) -> Option<LastWords> {
    let understood = |start: &Start| {
        let mut words = start.words.iter();
        words.find_map(|word| Some((understand(word)?, word.text())))
    };
    let (trouble, text) = understood(starts.last()?)?;
    let same = starts
        .iter()
        .rev()
        .take_while(|start| understood(start).is_some_and(|(other, _)| other == trouble));
    Some(LastWords {
        trouble,
        text,
        starts: u32::try_from(same.count()).unwrap_or(u32::MAX),
    })
}

/// Starts that logged this, each as message and error.
#[cfg(test)]
pub(super) fn said(starts: &[(&str, &str)]) -> Vec<Start> {
    let start = |(message, error): &(&str, &str)| Start {
        invocation: String::new(),
        words: vec![Word {
            message: (*message).to_owned(),
            error: (*error).to_owned(),
        }],
    };
    starts.iter().map(start).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::Trouble;

    fn entry(invocation: &str, message: &str) -> String {
        serde_json::json!({"MESSAGE": message, "_SYSTEMD_INVOCATION_ID": invocation}).to_string()
    }

    fn etcd(invocation: &str, level: &str, message: &str, error: &str) -> String {
        let line = serde_json::json!({"level": level, "ts": "2026", "msg": message, "error": error});
        entry(invocation, &line.to_string())
    }

    fn words(lines: &[String]) -> Option<(Trouble, u32)> {
        last_words(&parse(&lines.join("\n"))).map(|words| (words.trouble, words.starts))
    }

    #[test]
    fn c11_the_last_words_of_the_last_starts() {
        let damaged = |n: &str| {
            vec![
                entry(n, "etcd-agent gate: the epoch is confirmed"),
                etcd(n, "info", "starting", ""),
                etcd(n, "fatal", "discovery failed", "walpb: crc mismatch"),
            ]
        };
        let served = |n: &str| vec![etcd(n, "info", "ready to serve client requests", "")];
        let full = |n: &str| {
            vec![etcd(
                n,
                "fatal",
                "failed to save",
                "write x: no space left on device",
            )]
        };
        let gate_only = |n: &str| vec![entry(n, "etcd-agent gate: waits")];
        let by_systemd = vec![serde_json::json!({"MESSAGE": "etcd.service: Failed"}).to_string()];
        let panicked = |n: &str| {
            vec![
                etcd(n, "info", "starting", ""),
                entry(
                    n,
                    "panic: assertion failed: Page expected to be: 3, but self identifies as 0",
                ),
                entry(n, "goroutine 1 [running]:"),
            ]
        };
        let other = |n: &str| vec![etcd(n, "fatal", "discovery failed", "something new")];
        let table = [
            ("nothing", vec![], None),
            ("garbage", vec![vec!["{".to_owned(), "null".to_owned()]], None),
            ("once", vec![served("a"), damaged("b")], Some((Trouble::Log, 1))),
            ("twice", vec![damaged("a"), damaged("b")], Some((Trouble::Log, 2))),
            (
                "served since",
                vec![damaged("a"), damaged("b"), served("c")],
                None,
            ),
            (
                "served in between",
                vec![damaged("a"), served("b"), damaged("c")],
                Some((Trouble::Log, 1)),
            ),
            (
                "a start that waits at the gate",
                vec![damaged("a"), damaged("b"), gate_only("c")],
                Some((Trouble::Log, 2)),
            ),
            (
                "systemd has the last word",
                vec![damaged("a"), damaged("b"), by_systemd],
                Some((Trouble::Log, 2)),
            ),
            (
                "another trouble",
                vec![damaged("a"), full("b")],
                Some((Trouble::NoSpace, 1)),
            ),
            (
                "unknown words",
                vec![damaged("a"), damaged("b"), other("c")],
                None,
            ),
            (
                "a panic",
                vec![panicked("a"), panicked("b")],
                Some((Trouble::Database, 2)),
            ),
        ];
        for (case, starts, expected) in table {
            assert_eq!(words(&starts.concat()), expected, "{case}");
        }
    }
}
