//! Calendar events, as systemd writes them (systemd.time(7), "Calendar Events"): `Mon..Fri *-*-* 02:00`.
//!
//! All of them are UTC, so that every node of a cluster means the same moment. systemd's other features
//! (fractions of a second, other time zones) are refused, and the error names them.

mod field;
mod parse;

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use super::UnixMs;

use field::Field;

pub use field::CalendarError;

/// An upper bound for the gap between two times of a calendar, in years. The 29th of February on one day of
/// the week has the longest gap.
const FURTHEST_YEARS: i16 = 45;

/// 2150-01-01T00:00:00Z. A calendar with a time after this recurs until 2199, the last year that it can name.
const LATE: UnixMs = UnixMs(5_680_281_600_000);

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
