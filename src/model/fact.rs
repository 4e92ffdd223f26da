//! The tri-state every observed fact is kept in.

use serde::{Deserialize, Serialize};

/// A fact that one agent tried to observe: known, known to be absent, or unreachable.
///
/// `Unreachable` is never folded into `Absent`: data gets wiped if something that could not be observed
/// counts as absent (design §3, safety rule 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact", content = "value")]
pub enum Fact<T> {
    /// It was observed, with this value.
    Known(T),
    /// It was looked for in its place and is not there.
    Absent,
    /// It could not be observed; the text says why, on one line.
    Unreachable(String),
}

impl<T> Fact<T> {
    /// The value, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unreachable(_) => None,
        }
    }

    /// True only if it was looked for and is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// True if it could not be observed.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Applies `f` to a known value and keeps the other states.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(f(value)),
            Self::Absent => Fact::Absent,
            Self::Unreachable(why) => Fact::Unreachable(why),
        }
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::Unreachable("not looked at yet".to_owned())
    }
}
