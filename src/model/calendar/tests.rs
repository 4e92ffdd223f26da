use super::*;

fn ms(text: &str) -> UnixMs {
    let time: Timestamp = text.parse().unwrap();
    UnixMs(u64::try_from(time.as_millisecond()).unwrap())
}

fn next(calendar: &str, after: &str) -> Option<UnixMs> {
    calendar.parse::<Calendar>().unwrap().next_after(ms(after))
}

// tests/store/tests/servers/calendar.rs compares the calendar with systemd itself.
#[test]
fn the_next_time() {
    let sunday = "2026-03-01T04:05:06Z";
    for (calendar, after, expected) in [
        ("hourly", sunday, "2026-03-01T05:00:00Z"),
        ("daily", sunday, "2026-03-02T00:00:00Z"),
        ("weekly", sunday, "2026-03-02T00:00:00Z"),
        ("weekly", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"),
        ("quarterly", sunday, "2026-04-01T00:00:00Z"),
        ("Mon..Fri 02:00 UTC", sunday, "2026-03-02T02:00:00Z"),
        ("Sun", sunday, "2026-03-08T00:00:00Z"),
        ("04:05:07", sunday, "2026-03-01T04:05:07Z"),
        ("04:05:06", sunday, "2026-03-02T04:05:06Z"),
        ("*:0/15", sunday, "2026-03-01T04:15:00Z"),
        ("*:59:59", "2026-12-31T23:59:59Z", "2027-01-01T00:59:59Z"),
        ("*-*~1", sunday, "2026-03-31T00:00:00Z"),
        ("*-*~7/3", sunday, "2026-03-25T00:00:00Z"),
        ("*-02-29", sunday, "2028-02-29T00:00:00Z"),
        ("Sun *-02-29", sunday, "2032-02-29T00:00:00Z"),
        ("2030-01-01 12:00", sunday, "2030-01-01T12:00:00Z"),
    ] {
        assert_eq!(next(calendar, after), Some(ms(expected)), "{calendar}");
    }
    for never in ["2020-*-*", "*-02-30", "2026-01-01 12:00"] {
        assert_eq!(next(never, sunday), None, "{never}");
    }
}

#[test]
fn what_is_no_calendar_is_named() {
    for (text, why) in [
        ("", "it is empty"),
        ("dayly", "no day of the week"),
        ("Mon..Fry", "\"fry\" is no day of the week"),
        ("Fri..Mon", "runs over the end of the week"),
        ("25:00", "\"25\" is no hour: expected *, or 0 to 23"),
        ("02:00:00.5", "is no second"),
        ("*-13-01", "\"13\" is no month"),
        ("*-*-32", "\"32\" is no day"),
        ("*-*-9..3", "\"9..3\" is no day"),
        ("*:*/5", "\"*/5\" is no minute"),
        ("1:2:3:4", "is no time"),
        ("20260301", "is no date"),
        ("02:00 *-*-*", "in this order"),
        ("02:00 Europe/Berlin", "all are UTC"),
    ] {
        let error = text.parse::<Calendar>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn it_travels_as_its_text() {
    let calendar: Calendar = "Mon..Fri 02:00".parse().unwrap();
    let json = serde_json::to_string(&calendar).unwrap();
    assert_eq!(json, "\"Mon..Fri 02:00\"");
    assert_eq!(serde_json::from_str::<Calendar>(&json).unwrap(), calendar);
    assert!(serde_json::from_str::<Calendar>("\"never\"").is_err());
}
