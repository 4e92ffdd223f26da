//! Problems of the configuration, with everything that an operator needs to fix them.

use std::fmt;
use std::path::PathBuf;

use super::location::SourceLocation;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, if the problem is in a particular file.
    pub file: Option<PathBuf>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The field, e.g. `cluster.size`; empty for the file as a whole.
    pub field: String,
    /// What was found, what was expected and what to do, in one line.
    pub text: String,
    /// Whether the same configuration may be right at a later start, because the cause is outside of it: the host's
    /// name, or a read that failed.
    pub may_pass: bool,
}

impl Problem {
    pub(super) fn at(at: Option<&SourceLocation>, field: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            file: at.map(|at| at.file.to_path_buf()),
            line: at.map(|at| at.line),
            field: field.into(),
            text: text.into(),
            may_pass: false,
        }
    }
    pub(super) fn file(file: PathBuf, text: impl Into<String>) -> Self {
        Self {
            file: Some(file),
            line: None,
            field: String::new(),
            text: text.into(),
            may_pass: false,
        }
    }
    pub(super) fn may_pass(self) -> Self {
        Self {
            may_pass: true,
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.text)
    }
}

/// All problems, in the order of files and lines, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.dedup();
        Self(problems)
    }
    /// Iterates over the problems.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
    /// Whether a later start may succeed without a change of the configuration.
    pub fn may_pass(&self) -> bool {
        self.0.iter().all(|problem| problem.may_pass)
    }
    /// All problems on one line, for the journal and `STATUS=`.
    pub fn one_line(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        lines.join("; ")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
