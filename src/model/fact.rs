//! The tri-state every observed fact is kept in.

use serde::{Deserialize, Serialize};

/// Something one agent tried to see: known, known not to be there, or out of reach.
///
/// `Unreachable` is never folded into `Absent`: treating what could not be seen as gone is how data
/// gets wiped (design §3, safety rule 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact", content = "value")]
pub enum Fact<T> {
    /// It was seen, and this is what it was.
    Known(T),
    /// It was looked for where it would be, and it is not there.
    Absent,
    /// Nobody could tell; the text says why, on one line.
    Unreachable(String),
}

impl<T> Fact<T> {
    /// The value, when it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unreachable(_) => None,
        }
    }

    /// True only when it was looked for and is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// True when nobody could tell.
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
