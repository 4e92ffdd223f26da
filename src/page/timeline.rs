//! The timeline of backups as a picture. The table below it says the same.

use maud::{Markup, html};

use crate::model::{RecentBackup, SeenVerification, UnixMs, wording};

/// The width of the picture and the margin at both ends, in its own units.
const WIDTH: f64 = 340.0;
const MARGIN: f64 = 10.0;
/// The unit below which ages are not distinguished, in seconds.
const FINE: f64 = 60.0;
/// The ages that the axis names, in seconds.
const TICKS: [(f64, &str); 5] = [
    (3_600.0, "1h"),
    (86_400.0, "1d"),
    (604_800.0, "1w"),
    (2_592_000.0, "30d"),
    (31_536_000.0, "1y"),
];

/// A strip with one mark per backup, the newest to the right. The axis is logarithmic: retention keeps more
/// of the newer backups.
pub(super) fn timeline(backups: &[RecentBackup], now: UnixMs) -> Markup {
    let age = |at: UnixMs| now.since(at).as_secs_f64();
    let oldest = backups
        .iter()
        .map(|backup| age(backup.at))
        .fold(3_600.0, f64::max);
    let at = |age: f64| {
        let part = (1.0 + age / FINE).ln() / (1.0 + oldest / FINE).ln();
        WIDTH - MARGIN - part * (WIDTH - 2.0 * MARGIN)
    };
    html! {
        figure {
            svg viewBox={ "0 0 " (WIDTH) " 44" } role="img" aria-label=(label(backups, now)) {
                line .axis x1=(MARGIN) x2=(WIDTH - MARGIN) y1="16" y2="16" {}
                @for (age, name) in TICKS.iter().filter(|(age, _)| *age <= oldest) {
                    (tick(at(*age), name))
                }
                (tick(at(0.0), "now"))
                @for backup in backups { (mark(at(age(backup.at)), &backup.verification)) }
            }
            figcaption {
                "Backups by age: " span .good { "● verified and good" } ", " span .plain { "○ not verified" } ", "
                span .bad { "× bad or not readable" } "."
            }
        }
    }
}

fn tick(x: f64, name: &str) -> Markup {
    let x = format!("{x:.1}");
    html! {
        line .axis x1=(x) x2=(x) y1="12" y2="24" {}
        text x=(x) y="36" text-anchor="middle" { (name) }
    }
}

fn mark(x: f64, verification: &SeenVerification) -> Markup {
    let (is_good, is_bad) = (verification.is_good(), verification.is_bad());
    let centre = format!("{x:.1}");
    html! {
        @if is_bad {
            path .bad d=(format!("M{:.1} 11.5l9 9m0 -9l-9 9", x - 4.5)) {}
        } @else if is_good {
            circle .good cx=(centre) cy="16" r="4" {}
        } @else {
            circle .plain cx=(centre) cy="16" r="3.5" {}
        }
    }
}

fn label(backups: &[RecentBackup], now: UnixMs) -> String {
    let count =
        |is: fn(&SeenVerification) -> bool| backups.iter().filter(|backup| is(&backup.verification)).count();
    let age = |backup: Option<&RecentBackup>| {
        backup.map_or_else(String::new, |backup| wording::age(now.since(backup.at)))
    };
    format!(
        "{} backups, the oldest {} old, the newest {} old; {} verified and good, {} bad or not readable. The table \
         says the same.",
        backups.len(),
        age(backups.first()),
        age(backups.last()),
        count(SeenVerification::is_good),
        count(SeenVerification::is_bad)
    )
}
