//! Points in time on the command line, as `journalctl --since` takes them.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::{Timestamp, Zoned};

use super::wait::span;
use crate::model::UnixMs;

/// Parses `2026-11-27 10:00`, `2026-11-27`, `10:00`, `now`, `today`, `yesterday`, `-1h`, `1h ago`, `1h`
/// (ago), or RFC 3339. What names no zone is local time.
pub(super) fn moment(text: &str) -> Result<UnixMs, String> {
    at(text, &Zoned::now())
}

fn at(text: &str, now: &Zoned) -> Result<UnixMs, String> {
    let wrong = || {
        format!(
            "found {text:?}, expected a time such as \"2026-11-27 10:00\", \"10:00\", \"-1h\", \"1h ago\", \
             \"yesterday\" or 2026-11-27T10:00:00Z"
        )
    };
    let word = text.trim();
    let ago = word
        .strip_prefix('-')
        .or_else(|| word.strip_suffix("ago").map(str::trim));
    if let Ok(ago) = span(ago.unwrap_or(word)) {
        return Ok(before(now.timestamp(), ago));
    }
    let found = if ago.is_some() {
        None
    } else if let Ok(found) = word.parse::<Timestamp>() {
        Some(found)
    } else {
        local(word, now)
    };
    let found = found.ok_or_else(wrong)?;
    u64::try_from(found.as_millisecond())
        .map(UnixMs)
        .map_err(|_| wrong())
}

fn before(now: Timestamp, ago: Duration) -> UnixMs {
    let now = u64::try_from(now.as_millisecond()).unwrap_or(0);
    UnixMs(now.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)))
}

fn local(word: &str, now: &Zoned) -> Option<Timestamp> {
    let midnight = |date: Date| date.to_datetime(Time::midnight());
    let civil = match word {
        "now" => return Some(now.timestamp()),
        "today" => midnight(now.date()),
        "yesterday" => midnight(now.date().yesterday().ok()?),
        _ => word
            .parse::<DateTime>()
            .ok()
            .or_else(|| Some(midnight(word.parse::<Date>().ok()?)))
            .or_else(|| Some(now.date().to_datetime(word.parse::<Time>().ok()?)))?,
    };
    let zoned = civil.to_zoned(now.time_zone().clone()).ok()?;
    Some(zoned.timestamp())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_as_systemd_reads_them() {
        let now: Zoned = "2026-11-27T10:30:00+01:00[+01:00]".parse().unwrap();
        let rows = [
            ("2026-11-27 10:00", "2026-11-27T09:00:00Z"),
            ("2026-11-27 10:00:05", "2026-11-27T09:00:05Z"),
            ("2026-11-27", "2026-11-26T23:00:00Z"),
            ("10:00", "2026-11-27T09:00:00Z"),
            ("now", "2026-11-27T09:30:00Z"),
            ("today", "2026-11-26T23:00:00Z"),
            ("yesterday", "2026-11-25T23:00:00Z"),
            ("-1h", "2026-11-27T08:30:00Z"),
            ("1h", "2026-11-27T08:30:00Z"),
            ("-1h 30min", "2026-11-27T08:00:00Z"),
            ("2 days ago", "2026-11-25T09:30:00Z"),
            ("2026-11-27T10:00:00Z", "2026-11-27T10:00:00Z"),
            ("2026-11-27T10:00:00+02:00", "2026-11-27T08:00:00Z"),
        ];
        for (text, expected) in rows {
            let expected: Timestamp = expected.parse().unwrap();
            let expected = UnixMs(u64::try_from(expected.as_millisecond()).unwrap());
            assert_eq!(at(text, &now), Ok(expected), "{text}");
        }
        for wrong in ["", "soon", "-", "-soon", "25:00", "2026-13-01", "1960-01-01"] {
            let error = at(wrong, &now).unwrap_err();
            assert!(error.contains("expected a time such as"), "{wrong}: {error}");
        }
    }
}
