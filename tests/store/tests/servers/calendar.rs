//! Compares calendar events with `systemd-analyze calendar`.

use std::process::Command;

use etcd_agent::model::{Calendar, UnixMs};

const ITERATIONS: usize = 6;
/// 2028 is a leap year.
const BASES: [&str; 4] = [
    "2026-03-01 04:05:06 UTC",
    "2026-12-31 23:59:59 UTC",
    "2028-02-28 00:00:00 UTC",
    "2027-05-31 12:30:00 UTC",
];
const EVENTS: [&str; 26] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "yearly",
    "annually",
    "Mon..Fri 02:00",
    "Sat,Sun *-*-* 12:00:30",
    "Wed",
    "wednesday 23:59",
    "*:0/15",
    "*:5/7:3",
    "1..5,20:00,30",
    "*-*-1/10 03:30",
    "*-02-29",
    "*-*~1",
    "*-*~7/3 01:02:03",
    "*-*~2..8/3",
    "*-02~5,1",
    "Mon *-*~7/1 04:00",
    "12-24,31 18:00",
    "2027..2029-01-01",
    "Sun *-02-29",
];

/// The times that `systemd-analyze calendar` prints, in seconds of Unix time.
fn by_systemd(event: &str, base: &str) -> Vec<u64> {
    let asked = Command::new("systemd-analyze")
        .args([
            "calendar",
            &format!("--iterations={ITERATIONS}"),
            "--base-time",
            base,
        ])
        .arg(format!("{event} UTC"))
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    assert!(
        asked.status.success(),
        "{event}: {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let times = text.lines().filter_map(|line| {
        let (head, time) = line.split_once(": ")?;
        (head.contains("Next elapse") || head.contains("Iter. #")).then_some(time)
    });
    let seconds = |time: &str| {
        // Sun 2026-03-29 00:00:00 UTC
        let mut words = time.split(' ').skip(1);
        let text = format!("{}T{}Z", words.next()?, words.next()?);
        u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_second()).ok()
    };
    times
        .filter(|time| *time != "never")
        .map(|time| seconds(time).unwrap())
        .collect()
}

#[test]
fn calendar_events_come_when_systemd_says() {
    for base in BASES {
        let date = base.replacen(' ', "T", 1).replace(" UTC", "Z");
        let from: jiff::Timestamp = date.parse().unwrap();
        for event in EVENTS {
            let calendar: Calendar = event.parse().unwrap();
            let mut last = UnixMs(u64::try_from(from.as_millisecond()).unwrap());
            let mut ours = Vec::new();
            while ours.len() < ITERATIONS
                && let Some(next) = calendar.next_after(last)
            {
                ours.push(next.0 / 1000);
                last = next;
            }
            assert_eq!(ours, by_systemd(event, base), "{event} after {base}");
        }
    }
}

#[test]
fn what_systemd_refuses_is_refused() {
    for event in [
        "Fri..Mon",
        "*-*-* */2:00",
        "25:00",
        "*-13-01",
        "dayly",
        "02:00 *-*-*",
        "",
    ] {
        assert!(event.parse::<Calendar>().is_err(), "{event}");
        let status = Command::new("systemd-analyze")
            .args(["calendar", event])
            .output()
            .unwrap()
            .status;
        assert!(!status.success(), "{event}");
    }
}
