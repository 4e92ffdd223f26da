//! One field of a calendar event: the values that it takes, as in `1..5,10/2`.

use thiserror::Error;

/// Why a text is not a calendar event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CalendarError(pub(super) String);

/// The values of one field. An empty list means all values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Field(pub(super) Vec<Span>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    first: i16,
    pub(super) last: i16,
    step: i16,
    /// The value from which steps are counted: the first, or the last if days are counted from the end of the
    /// month.
    from: i16,
}

impl Span {
    pub(super) fn new(first: i16, last: i16) -> Self {
        Self {
            first,
            last,
            step: 1,
            from: first,
        }
    }

    fn has(self, value: i16) -> bool {
        (self.first..=self.last).contains(&value) && (value - self.from) % self.step == 0
    }
}

/// The name of a field, and the values that it takes.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) min: i16,
    pub(super) max: i16,
    pub(super) backwards: bool,
}

impl Kind {
    pub(super) const fn new(name: &'static str, min: i16, max: i16) -> Self {
        Self {
            name,
            min,
            max,
            backwards: false,
        }
    }
}

impl Field {
    pub(super) fn only(value: i16) -> Self {
        Self(vec![Span::new(value, value)])
    }

    pub(super) fn has(&self, value: i16) -> bool {
        self.0.is_empty() || self.0.iter().any(|span| span.has(value))
    }

    /// The smallest value that is at least `from`.
    pub(super) fn at_least(&self, from: i16, max: i16) -> Option<i16> {
        (from..=max).find(|value| self.has(*value))
    }

    /// `*`, or numbers and ranges, each with an optional step.
    pub(super) fn parse(text: &str, kind: &Kind) -> Result<Self, CalendarError> {
        let Kind {
            name,
            min,
            max,
            backwards,
        } = *kind;
        if text == "*" {
            return Ok(Self::default());
        }
        let wrong = |part: &str| {
            CalendarError(format!(
                "{part:?} is no {name}: expected *, or {min} to {max}, as in 1, 1,15 or 1..5, with steps as in {min}/5"
            ))
        };
        let number = |part: &str| {
            let digits = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
            let value = digits.then(|| part.parse::<i16>().ok()).flatten();
            value.filter(|value| (min..=max).contains(value))
        };
        let span = |part: &str| {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (
                    range,
                    Some(step.parse().ok().filter(|step| (1..=max).contains(step))?),
                ),
                None => (part, None),
            };
            let (first, last) = match range.split_once("..") {
                Some((first, last)) => number(first)
                    .zip(number(last))
                    .filter(|(first, last)| first <= last)?,
                // A step without an end runs to the end of the field.
                None => match (number(range)?, step) {
                    (first, None) => (first, first),
                    (first, Some(_)) if backwards => (min, first),
                    (first, Some(_)) => (first, max),
                },
            };
            Some(Span {
                first,
                last,
                step: step.unwrap_or(1),
                from: if backwards { last } else { first },
            })
        };
        let spans = text.split(',').map(|part| span(part).ok_or_else(|| wrong(part)));
        spans.collect::<Result<_, _>>().map(Self)
    }
}
