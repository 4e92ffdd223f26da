//! Reads a calendar event: days of the week, a date and a time, or a shorthand.

use std::str::FromStr;

use super::Calendar;
use super::field::{CalendarError, Field, Kind, Span};

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

impl TryFrom<String> for Calendar {
    type Error = CalendarError;

    fn try_from(text: String) -> Result<Self, CalendarError> {
        text.parse()
    }
}
