//! The results, for people and for programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// One measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    /// `null` if there is nothing to do by hand.
    pub(crate) by_hand: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// In the same unit; computed from `by_hand` if the limit depends on it.
    pub(crate) limit: f64,
    pub(crate) holds: bool,
}

impl Line {
    pub(crate) fn new(
        name: &'static str,
        unit: &'static str,
        ours: f64,
        by_hand: Option<f64>,
        limit: f64,
    ) -> Self {
        Self {
            name,
            unit,
            ours: round(ours),
            by_hand: by_hand.map(round),
            ratio: by_hand.filter(|by| *by > 0.0).map(|by| round(ours / by)),
            limit: round(limit),
            holds: ours <= limit,
        }
    }

    fn text(&self) -> String {
        let unit = self.unit;
        let or_none = |value: Option<f64>, unit: &str| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value}{unit}"))
        };
        format!(
            "{}: ours {} {unit}, by hand {}, ratio {} (limit {} {unit}, holds {})",
            self.name,
            self.ours,
            or_none(self.by_hand, &format!(" {unit}")),
            or_none(self.ratio, ""),
            self.limit,
            if self.holds { "yes" } else { "no" }
        )
    }
}

/// All measurements of a run. The file is rewritten after each.
pub(crate) struct Report {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn new() -> Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            PathBuf::from,
        );
        fs::create_dir_all(&target)?;
        Ok(Self {
            path: fs::canonicalize(target)?.join("bench.json"),
            lines: Vec::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&mut self, lines: Vec<Line>) -> Result<()> {
        for line in lines {
            println!("{}", line.text());
            self.lines.push(line);
        }
        let text = serde_json::to_string_pretty(&self.lines)?;
        fs::write(&self.path, text + "\n").with_context(|| format!("writing {}", self.path.display()))
    }
}

/// Samples taken alternately. Each is printed when it is taken.
pub(crate) struct Samples {
    name: &'static str,
    values: Vec<f64>,
}

impl Samples {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            values: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, value: f64) {
        eprintln!("bench:   {} {}", self.name, round(value));
        self.values.push(value);
    }

    pub(crate) fn add_time(&mut self, value: Duration) {
        self.add(value.as_secs_f64());
    }

    pub(crate) fn max(&self) -> Result<f64> {
        self.values.iter().copied().reduce(f64::max).context("no samples")
    }

    pub(crate) fn min(&self) -> Result<f64> {
        self.values.iter().copied().reduce(f64::min).context("no samples")
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    pub(crate) fn median(&self) -> Result<f64> {
        let sorted = self.sorted();
        let middle = |at: usize| sorted.get(at).copied().context("no samples");
        if sorted.len() % 2 == 1 {
            middle(sorted.len() / 2)
        } else {
            let upper = sorted.len() / 2;
            Ok(f64::midpoint(middle(upper)?, middle(upper.saturating_sub(1))?))
        }
    }
}

/// More than four decimals are not significant on a shared machine.
fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// The machine's load, on which all figures depend.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let three: Vec<&str> = load.split_whitespace().take(3).collect();
    format!("{} on {cores} cores", three.join(" "))
}
