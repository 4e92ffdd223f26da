//! Calendar events, as systemd writes them (systemd.time(7), "Calendar Events"): `Mon..Fri *-*-* 02:00`.
//!
//! All of them are UTC, so that every node of a cluster means the same moment. systemd's other features
//! (fractions of a second, other time zones) are refused, and the error names them.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::UnixMs;

/// An upper bound for the gap between two times of a calendar, in years. The 29th of February on one day of
/// the week has the longest gap.
const FURTHEST_YEARS: i16 = 45;

/// 2150-01-01T00:00:00Z. A calendar with a time after this recurs until 2199, the last year that it can name.
const LATE: UnixMs = UnixMs(5_680_281_600_000);

const SHORTHANDS: [(&str, &str); 9] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
];

const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Why a text is not a calendar event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CalendarError(String);

/// Recurring points in time, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Calendar {
    text: String,
    /// Monday is 1.
    weekdays: Field,
    years: Field,
    months: Field,
    days: Field,
    /// True if days are counted from the end of the month: 1 is the last day.
    from_the_end: bool,
    hours: Field,
    minutes: Field,
    seconds: Field,
}

/// The values of one field. An empty list means all values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Field(Vec<Span>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i16,
    last: i16,
    step: i16,
    /// The value from which steps are counted: the first, or the last if days are counted from the end of the
    /// month.
    from: i16,
}

impl Span {
    fn new(first: i16, last: i16) -> Self {
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
struct Kind {
    name: &'static str,
    min: i16,
    max: i16,
    backwards: bool,
}

impl Kind {
    const fn new(name: &'static str, min: i16, max: i16) -> Self {
        Self {
            name,
            min,
            max,
            backwards: false,
        }
    }
}

impl Field {
    fn only(value: i16) -> Self {
        Self(vec![Span::new(value, value)])
    }

    fn has(&self, value: i16) -> bool {
        self.0.is_empty() || self.0.iter().any(|span| span.has(value))
    }

    /// The smallest value that is at least `from`.
    fn at_least(&self, from: i16, max: i16) -> Option<i16> {
        (from..=max).find(|value| self.has(*value))
    }

    /// `*`, or numbers and ranges, each with an optional step.
    fn parse(text: &str, kind: &Kind) -> Result<Self, CalendarError> {
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

impl Calendar {
    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after `after`; `None` if there is none.
    pub fn next_after(&self, after: UnixMs) -> Option<UnixMs> {
        let after = Timestamp::from_second(i64::try_from(after.0 / 1000).ok()?).ok()?;
        let start = TimeZone::UTC.to_datetime(after).checked_add(1.second()).ok()?;
        let mut date = start.date();
        let furthest = date.year().saturating_add(FURTHEST_YEARS);
        let last_year = self.years.0.iter().map(|span| span.last).max();
        let last_year = last_year.unwrap_or(furthest).min(furthest);
        while date.year() <= last_year {
            if self.on(date) {
                let from = if date == start.date() {
                    start.time()
                } else {
                    Time::MIN
                };
                if let Some(time) = self.at(from) {
                    let next = TimeZone::UTC
                        .to_timestamp(DateTime::from_parts(date, time))
                        .ok()?;
                    return Some(UnixMs(u64::try_from(next.as_millisecond()).ok()?));
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// True if the calendar recurs without end. False if it has no time at all, e.g. the 30th of February, or
    /// if its years end.
    pub fn comes_again(&self) -> bool {
        self.next_after(LATE).is_some()
    }

    fn on(&self, date: Date) -> bool {
        let day = i16::from(date.day());
        let day = if self.from_the_end {
            i16::from(date.days_in_month()) - day + 1
        } else {
            day
        };
        self.years.has(date.year())
            && self.months.has(i16::from(date.month()))
            && self.days.has(day)
            && self
                .weekdays
                .has(i16::from(date.weekday().to_monday_one_offset()))
    }

    /// The first time of a day that is at or after `from`.
    fn at(&self, from: Time) -> Option<Time> {
        let (mut hour, mut minute, mut second) = (
            i16::from(from.hour()),
            i16::from(from.minute()),
            i16::from(from.second()),
        );
        loop {
            let found = self.hours.at_least(hour, 23)?;
            if found > hour {
                (minute, second) = (0, 0);
            }
            hour = found;
            if let Some(found) = self.minutes.at_least(minute, 59) {
                if found > minute {
                    second = 0;
                }
                minute = found;
                if let Some(second) = self.seconds.at_least(second, 59) {
                    let part = |value: i16| i8::try_from(value).ok();
                    return Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok();
                }
                (minute, second) = (minute + 1, 0);
            } else {
                (hour, minute, second) = (hour + 1, 0, 0);
            }
        }
    }
}

/// Parses days of the week; an error if the text is something else.
fn weekdays(text: &str) -> Result<Field, CalendarError> {
    let day = |word: &str| {
        let word = word.to_lowercase();
        let known = DAYS
            .iter()
            .position(|day| *day == word || day.get(..3) == Some(&word))
            .and_then(|at| i16::try_from(at + 1).ok());
        known.ok_or_else(|| CalendarError(format!("{word:?} is no day of the week: expected Mon to Sun")))
    };
    let mut spans = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (day(first)?, day(last)?),
            None => (day(part)?, day(part)?),
        };
        if first > last {
            let text =
                format!("{part:?} runs over the end of the week: write two ranges, as in Fri..Sun,Mon");
            return Err(CalendarError(text));
        }
        spans.push(Span::new(first, last));
    }
    Ok(Field(spans))
}

impl FromStr for Calendar {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Self, CalendarError> {
        let wrong = |why: &str| CalendarError(why.to_owned());
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if words.last().is_some_and(|word| word.eq_ignore_ascii_case("utc")) {
            words.pop();
        }
        let normal = match words.as_slice() {
            [word] => SHORTHANDS
                .iter()
                .find(|(name, _)| word.eq_ignore_ascii_case(name)),
            _ => None,
        };
        if let Some((_, normal)) = normal {
            words = normal.split(' ').collect();
        }
        let mut rest = words.as_slice();
        let mut week = Field::default();
        if let [first, more @ ..] = rest
            && first.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            week = weekdays(first)?;
            rest = more;
        }
        let (date, time) = match rest {
            [] if week.0.is_empty() => return Err(wrong("it is empty")),
            [] => (None, None),
            [one] if one.contains(':') => (None, Some(*one)),
            [one] => (Some(*one), None),
            [date, time] if !date.contains(':') => (Some(*date), Some(*time)),
            _ => {
                return Err(wrong(
                    "expected days of the week, a date and a time, in this order; all are UTC",
                ));
            }
        };
        let mut calendar = Self {
            text: text.to_owned(),
            weekdays: week,
            years: Field::default(),
            months: Field::default(),
            days: Field::default(),
            from_the_end: false,
            hours: Field::only(0),
            minutes: Field::only(0),
            seconds: Field::only(0),
        };
        if let Some(date) = date {
            calendar.date(date)?;
        }
        if let Some(time) = time {
            calendar.time(time)?;
        }
        Ok(calendar)
    }
}

impl Calendar {
    fn date(&mut self, text: &str) -> Result<(), CalendarError> {
        let expected = || {
            CalendarError(format!(
                "{text:?} is no date: expected YEAR-MONTH-DAY, e.g. *-*-01"
            ))
        };
        let from_the_end = text.contains('~');
        let last = if from_the_end { '~' } else { '-' };
        let (before, day) = text.rsplit_once(last).ok_or_else(expected)?;
        let (year, month) = before.split_once('-').unwrap_or(("*", before));
        self.years = Field::parse(year, &Kind::new("year", 1970, 2199))?;
        self.months = Field::parse(month, &Kind::new("month", 1, 12))?;
        let days = Kind {
            backwards: from_the_end,
            ..Kind::new("day", 1, 31)
        };
        self.days = Field::parse(day, &days)?;
        self.from_the_end = from_the_end;
        Ok(())
    }

    fn time(&mut self, text: &str) -> Result<(), CalendarError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (hour, minute, second) = match parts.as_slice() {
            [hour, minute] => (*hour, *minute, "0"),
            [hour, minute, second] => (*hour, *minute, *second),
            _ => {
                return Err(CalendarError(format!(
                    "{text:?} is no time: expected HOUR:MINUTE or HOUR:MINUTE:SECOND"
                )));
            }
        };
        self.hours = Field::parse(hour, &Kind::new("hour", 0, 23))?;
        self.minutes = Field::parse(minute, &Kind::new("minute", 0, 59))?;
        self.seconds = Field::parse(second, &Kind::new("second", 0, 59))?;
        Ok(())
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Calendar> for String {
    fn from(calendar: Calendar) -> Self {
        calendar.text
    }
}

impl TryFrom<String> for Calendar {
    type Error = CalendarError;

    fn try_from(text: String) -> Result<Self, CalendarError> {
        text.parse()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
