//! The table of `docs/versions.md`: what `etcd-agent upgrade` and `etcd-agent downgrade` answer on a cluster
//! of each version, for each other version.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::common::{SOON, agent, etcd_pids};
use etcd_agent_lab::{Lab, Output, wait_for};

/// The versions, oldest first.
const VERSIONS: [&str; 5] = ["3.4.23", "3.5.16", "3.5.35", "3.6.16", "3.7.3"];

/// The pairs that the test `s09_a_cluster_moves_between_any_two_versions_with_all_of_its_data` moves a cluster between, in
/// a new epoch.
pub(crate) const MOVES: [(&str, &str); 2] = [("3.7.3", "3.4.23"), ("3.4.23", "3.7.3")];

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/versions.md");
const BEGIN: &str = "<!-- The test s09_etcd_is_upgraded_minor_by_minor_under_load_and_goes_back_while_it_can wrote \
                     this: UPDATE_VERSIONS=1 writes it again. -->\n";
const END: &str = "<!-- The end of what the test wrote. -->\n";

/// Parts of refusals that end by themselves, within seconds of a restart of etcd.
const PASSING: [&str; 6] = [
    "first all members have to be healthy",
    "something else is under way",
    "is not complete on",
    "is not yet back",
    "has the format of",
    "not known yet",
];

/// The answer to an order.
enum Answer {
    /// It would be carried out: through these versions, the ordered one last.
    Steps(Vec<String>),
    /// The reason.
    Refused(String),
}

/// The answers so far, by the version that runs and the one that is ordered.
#[derive(Default)]
pub(crate) struct VersionTable {
    answers: BTreeMap<(usize, usize), Answer>,
    moves: BTreeSet<(usize, usize)>,
}

impl VersionTable {
    /// Orders each other version with `--dry-run`, while every member runs `from`.
    pub(crate) fn ask(&mut self, lab: &Lab, from: &str) {
        let pids = etcd_pids(lab.hosts());
        let from = index(from);
        for to in (0..VERSIONS.len()).filter(|to| *to != from) {
            let order = [verb(from, to), "--to", VERSIONS[to], "--dry-run"];
            let answer = wait_for(&format!("an answer to {order:?}"), SOON, || {
                answer(&agent(lab.host(1)?, &order))
            });
            self.answers.insert((from, to), answer.unwrap());
        }
        assert_eq!(etcd_pids(lab.hosts()), pids, "an etcd was restarted");
    }

    /// Notes that the cluster went from one version to another in one order, or in a step of one.
    pub(crate) fn moved(&mut self, from: &str, to: &str) {
        self.moves.insert((index(from), index(to)));
    }

    /// Fails if the page differs. With `UPDATE_VERSIONS` in the environment it changes the page.
    pub(crate) fn check(&self) {
        let page = fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the first comment");
        let (_, after) = rest.split_once(END).expect("the page has the last comment");
        let new = format!("{before}{BEGIN}\n{}\n{END}{after}", self.markdown());
        if std::env::var_os("UPDATE_VERSIONS").is_some() {
            fs::write(PAGE, &new).unwrap();
            return;
        }
        assert!(
            page == new,
            "docs/versions.md differs: run this test with UPDATE_VERSIONS=1, and review the change.\n{}",
            self.markdown()
        );
    }

    fn markdown(&self) -> String {
        let mut text = format!("| from, to | {} |\n|---|", VERSIONS.join(" | "));
        text += &"---|".repeat(VERSIONS.len());
        let mut notes: Vec<(String, String)> = Vec::new();
        for (from, name) in VERSIONS.iter().enumerate() {
            let _ = write!(text, "\n| **{name}** |");
            for (to, other) in VERSIONS.iter().enumerate() {
                let cell = self.answers.get(&(from, to)).map(|answer| match answer {
                    Answer::Steps(steps) if steps.len() == 1 => verb(from, to).to_owned(),
                    Answer::Steps(steps) => format!("in steps: {}", steps.join(", ")),
                    Answer::Refused(why) => format!("refused: {}", note(&mut notes, from, to, why)),
                });
                let moved = self.moves.contains(&(from, to));
                let by_move = MOVES.contains(&(*name, *other));
                let cell = cell.map(|cell| {
                    if by_move {
                        format!("{cell}; **move**")
                    } else {
                        cell
                    }
                });
                match cell {
                    Some(cell) if moved => write!(text, " **{cell}** |"),
                    Some(cell) => write!(text, " {cell} |"),
                    None => write!(text, " |"),
                }
                .unwrap();
            }
        }
        text.push('\n');
        for (number, (why, order)) in (1..).zip(&notes) {
            let _ = write!(text, "\n{number}. `{order}`: {why}");
        }
        text.push('\n');
        text
    }
}

/// The number of this reason below the table.
fn note(notes: &mut Vec<(String, String)>, from: usize, to: usize, why: &str) -> usize {
    if let Some(at) = notes.iter().position(|(known, _)| known == why) {
        return at + 1;
    }
    let order = format!("etcd-agent {} --to {}", verb(from, to), VERSIONS[to]);
    notes.push((why.to_owned(), order));
    notes.len()
}

fn index(version: &str) -> usize {
    VERSIONS.iter().position(|known| *known == version).unwrap()
}

fn verb(from: usize, to: usize) -> &'static str {
    if to > from { "upgrade" } else { "downgrade" }
}

fn answer(output: &Output) -> anyhow::Result<Option<Answer>> {
    let mut lines = output.stderr.lines();
    match output.code {
        0 => {
            let way = lines.find(|line| line.starts_with("the way to "));
            let (_, steps) = way.and_then(|way| way.split_once(": ")).unwrap_or_default();
            anyhow::ensure!(!steps.is_empty(), "it names no way: {}", output.stderr);
            Ok(Some(Answer::Steps(
                steps.split(", then ").map(ToOwned::to_owned).collect(),
            )))
        }
        4 => {
            let why = lines.find_map(|line| line.strip_prefix("etcd-agent: "));
            let why = why.unwrap_or_default();
            anyhow::ensure!(!PASSING.iter().any(|part| why.contains(part)), "{why}");
            Ok(Some(Answer::Refused(why.to_owned())))
        }
        code => anyhow::bail!("exit {code}: {}", output.stderr),
    }
}
