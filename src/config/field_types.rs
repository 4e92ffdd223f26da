//! The types of fields. Each function parses a value. Its error says what was found and what is expected.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, PathBuf};
use std::time::Duration;

use super::settings::{Proxy, Quota, StoreUrl};
use super::tree::{Kind, Value};
use crate::model::{BackupFormat, Calendar, ClusterName, Join, LockOwner, NodeName, UnixMs};

/// The longest duration. It can be added to any point in time without an overflow.
const LONGEST: Duration = Duration::from_hours(100 * 366 * 24);

type Read<T> = Result<T, String>;

fn bad<T>(value: &Value, expected: &str) -> Read<T> {
    Err(format!("found {}, expected {expected}", value.describe()))
}

fn text(value: &Value) -> Option<&str> {
    match &value.kind {
        Kind::Text(text) => Some(text),
        _ => None,
    }
}

pub(super) fn node_name(value: &Value) -> Read<NodeName> {
    let expected = "1 to 63 of a-z A-Z 0-9 . _ -, starting with a letter or digit";
    text(value)
        .and_then(|text| NodeName::new(text).ok())
        .map_or_else(|| bad(value, expected), Ok)
}

pub(super) fn cluster_name(value: &Value) -> Read<ClusterName> {
    let expected = "1 to 63 of a-z A-Z 0-9 . _ -, starting with a letter or digit";
    text(value)
        .and_then(|text| ClusterName::new(text).ok())
        .map_or_else(|| bad(value, expected), Ok)
}

pub(super) fn size(value: &Value) -> Read<usize> {
    match value.kind {
        Kind::Int(number @ 1..=9) => Ok(usize::try_from(number).unwrap_or(1)),
        _ => bad(value, "1, 3, 5 or 7"),
    }
}

pub(super) fn join(value: &Value) -> Read<Join> {
    let all = [Join::Prepare, Join::Add, Join::Replace, Join::Prune];
    text(value)
        .and_then(|text| all.into_iter().find(|join| join.as_str() == text))
        .map_or_else(
            || bad(value, "\"prepare\", \"add\", \"replace\" or \"prune\""),
            Ok,
        )
}

pub(super) fn keep(value: &Value) -> Read<usize> {
    match value.kind {
        Kind::Int(number @ 1..=1000) => Ok(usize::try_from(number).unwrap_or(1)),
        _ => bad(
            value,
            "a number from 1 to 1000: the newest replaced data directory always stays",
        ),
    }
}

pub(super) fn increments(value: &Value) -> Read<usize> {
    match value.kind {
        Kind::Int(number @ 100..=100_000) => Ok(usize::try_from(number).unwrap_or(100)),
        _ => bad(value, "a number from 100 to 100000, without quotes"),
    }
}

pub(super) fn count(value: &Value) -> Read<usize> {
    match value.kind {
        Kind::Int(number @ 0..=100_000) => Ok(usize::try_from(number).unwrap_or(0)),
        _ => bad(value, "a number from 0 to 100000, without quotes"),
    }
}

pub(super) fn percent(value: &Value) -> Read<usize> {
    match value.kind {
        Kind::Int(number @ 0..=100) => Ok(usize::try_from(number).unwrap_or(0)),
        _ => bad(value, "a number from 0 to 100, without quotes"),
    }
}

pub(super) fn flag(value: &Value) -> Read<bool> {
    match value.kind {
        Kind::Bool(flag) => Ok(flag),
        _ => bad(value, "true or false, without quotes"),
    }
}

pub(super) fn duration(value: &Value) -> Read<Duration> {
    let expected = "a time with its unit in quotes, one second to a hundred years, e.g. \"90s\", \"15m\", \"12h\" or \"30d\"";
    text(value)
        .and_then(|text| humantime::parse_duration(text).ok())
        .filter(|time| (Duration::from_secs(1)..=LONGEST).contains(time))
        .map_or_else(|| bad(value, expected), Ok)
}

pub(super) fn backup_format(value: &Value) -> Read<BackupFormat> {
    let known = [BackupFormat::Native, BackupFormat::EtcdManager];
    let found = text(value).and_then(|text| known.into_iter().find(|format| format.as_str() == text));
    found.map_or_else(|| bad(value, "\"native\" or \"etcd-manager\""), Ok)
}

/// How often something happens; `None` for never.
pub(super) fn interval(value: &Value) -> Read<Option<Duration>> {
    if text(value).is_some_and(|text| text == "off") {
        return Ok(None);
    }
    duration(value)
        .map(Some)
        .map_err(|error| format!("{error}, or \"off\""))
}

pub(super) fn calendar(value: &Value) -> Read<Calendar> {
    let expected =
        "a calendar event of systemd in UTC, e.g. \"daily\" or \"Mon..Fri *-*-* 02:00\" (systemd.time(7))";
    let Some(text) = text(value) else {
        return bad(value, expected);
    };
    let calendar: Calendar = text
        .parse()
        .map_err(|why| format!("found {}, expected {expected}: {why}", value.describe()))?;
    if !calendar.comes_again() {
        return Err(format!(
            "found {}, which never comes, or never again after the last year that it names; \
             expected {expected}",
            value.describe()
        ));
    }
    Ok(calendar)
}

pub(super) fn moment(value: &Value) -> Read<UnixMs> {
    let ms = text(value)
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .and_then(|time| u64::try_from(time.as_millisecond()).ok());
    let expected = "a time in quotes, e.g. \"2026-03-01T12:00:00Z\"";
    ms.map_or_else(|| bad(value, expected), |ms| Ok(UnixMs(ms)))
}

/// A number of bytes. With the minimum, one part of an upload still takes only about a minute.
pub(super) fn bytes(value: &Value) -> Read<u64> {
    let expected =
        "a number of bytes with its unit, at least \"128KiB\", e.g. \"512KiB\", \"20MiB\" or \"1GiB\"";
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    text(value)
        .and_then(|text| {
            let (unit, shift) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
            let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(1 << shift)
        })
        .filter(|bytes| *bytes >= 128 << 10)
        .map_or_else(|| bad(value, expected), Ok)
}

/// The smallest quota, in bytes. Less would be full after a few writes of the largest size.
const SMALLEST_QUOTA: u64 = 16 << 20;

pub(super) fn quota(value: &Value) -> Read<Quota> {
    if text(value).is_some_and(|text| text == "auto") {
        return Ok(Quota::Auto);
    }
    match bytes(value) {
        Ok(number) if number >= SMALLEST_QUOTA => Ok(Quota::Bytes(number)),
        _ => bad(
            value,
            "\"auto\", or a number of bytes with its unit, at least \"16MiB\", e.g. \"4GiB\"",
        ),
    }
}

pub(super) fn listen(value: &Value) -> Read<SocketAddr> {
    let expected = "an IP address and a port, e.g. \"0.0.0.0:2378\" or \"[::]:2378\"";
    text(value)
        .and_then(|text| text.parse().ok())
        .filter(|address: &SocketAddr| address.port() != 0)
        .map_or_else(|| bad(value, expected), Ok)
}

pub(super) fn port(value: &Value) -> Read<u16> {
    match value.kind {
        Kind::Int(number @ 1..=65535) => Ok(u16::try_from(number).unwrap_or_default()),
        _ => bad(value, "a port from 1 to 65535, without quotes"),
    }
}

pub(super) fn path(value: &Value) -> Read<PathBuf> {
    text(value)
        .and_then(absolute)
        .map_or_else(|| bad(value, "an absolute path without \"..\""), Ok)
}

/// A directory that goes into a unit file: `render` writes it there as it is.
pub(super) fn unit_dir(value: &Value) -> Read<PathBuf> {
    let plain = |text: &&str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-+@:".contains(c))
    };
    text(value).filter(plain).and_then(absolute).map_or_else(
        || {
            bad(
                value,
                "an absolute path without \"..\", of a-z A-Z 0-9 / . _ - + @ : (it goes into a unit file)",
            )
        },
        Ok,
    )
}

pub(super) fn binary(value: &Value) -> Read<PathBuf> {
    let plain = |text: &&str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c))
    };
    text(value).filter(plain).and_then(absolute).map_or_else(
        || {
            bad(
                value,
                "the absolute path of an etcd binary, of a-z A-Z 0-9 / . _ - + @ (it goes into a unit file)",
            )
        },
        Ok,
    )
}

fn absolute(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(text);
    let plain = path.is_absolute()
        && path.components().nth(1).is_some()
        && !path.components().any(|part| part == Component::ParentDir)
        && !text.chars().any(char::is_control);
    plain.then_some(path)
}

pub(super) fn word(value: &Value) -> Read<String> {
    text(value)
        .filter(|text| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()))
        .map_or_else(|| bad(value, "a word without spaces"), |text| Ok(text.to_owned()))
}

pub(super) fn store_url(value: &Value) -> Read<StoreUrl> {
    let expected = "s3://BUCKET/PREFIX or file:///ABSOLUTE/PATH (no keys in it: see store.credentials_file)";
    text(value)
        .and_then(|text| {
            if let Some(path) = text.strip_prefix("file://") {
                return absolute(path).map(StoreUrl::Directory);
            }
            let rest = text.strip_prefix("s3://")?;
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            let prefix = prefix.trim_matches('/');
            let ok = (3..=63).contains(&bucket.len())
                && bucket.chars().all(name)
                && prefix
                    .chars()
                    .all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\'))
                && (prefix.is_empty() || prefix.split('/').all(|part| !matches!(part, "" | "." | "..")));
            ok.then(|| StoreUrl::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            })
        })
        .map_or_else(|| bad(value, expected), Ok)
}

pub(super) fn endpoint(value: &Value) -> Read<String> {
    let expected = "the S3 server's URL, e.g. \"https://s3.example.org:9000\" (no keys in it: see store.credentials_file)";
    text(value)
        .filter(|text| {
            text.strip_prefix("https://")
                .or_else(|| text.strip_prefix("http://"))
                .is_some_and(|rest| {
                    !rest.is_empty()
                        && !rest.starts_with(['/', ':'])
                        && rest
                            .chars()
                            .all(|c| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#' | '\\'))
                })
        })
        .map_or_else(
            || bad(value, expected),
            |text| Ok(text.trim_end_matches('/').to_owned()),
        )
}

pub(super) fn proxy(value: &Value) -> Read<Proxy> {
    let expected = "a proxy's URL, e.g. \"http://proxy.example.org:3128\", or \"none\"";
    if text(value) == Some("none") {
        return Ok(Proxy::Off);
    }
    endpoint(value).map(Proxy::Url).or_else(|_| bad(value, expected))
}

/// Public keys that backups are encrypted for. An empty list is refused: it would silently disable
/// encryption.
pub(super) fn recipients(value: &Value) -> Read<Vec<String>> {
    let expected = "a list of age recipients, e.g. [\"age1...\"] (`age-keygen` prints one); leave it out for no encryption";
    let Kind::List(list) = &value.kind else {
        return bad(value, expected);
    };
    if list.is_empty() {
        return Err(format!("found an empty list, expected {expected}"));
    }
    for text in list {
        if text.starts_with("AGE-SECRET-KEY") {
            return Err(format!(
                "found a secret key, which does not belong here, expected {expected}"
            ));
        }
        if let Err(why) = text.parse::<age::x25519::Recipient>() {
            return Err(format!("{text:?} is no recipient ({why}), expected {expected}"));
        }
    }
    Ok(list.clone())
}

/// Groups of FleetLock clients. An empty list is refused: nobody could take the lock.
pub(super) fn lock_groups(value: &Value) -> Read<Vec<String>> {
    let longest = LockOwner::LONGEST;
    let expected = format!(
        "a list of groups, e.g. [\"default\"], each of 1 to {longest} letters, digits, dots and hyphens; without \
         reboot_lock.listen there are no clients"
    );
    let Kind::List(list) = &value.kind else {
        return bad(value, &expected);
    };
    if list.is_empty() {
        return Err(format!("found an empty list, expected {expected}"));
    }
    match list.iter().find(|name| !LockOwner::is_group(name)) {
        Some(name) => Err(format!("{name:?} is not a valid group, expected {expected}")),
        None => Ok(list.clone()),
    }
}

/// The mode of `store.sse`; its keys are checked with the other fields of the store.
pub(super) fn sse(value: &Value) -> Read<&'static str> {
    ["AES256", "aws:kms", "customer"]
        .into_iter()
        .find(|word| text(value) == Some(word))
        .map_or_else(|| bad(value, "\"AES256\", \"aws:kms\" or \"customer\""), Ok)
}

/// A node's address: a host name or an IP address, no port.
pub(super) fn address(value: &Value) -> Read<String> {
    let name = |text: &str| {
        text.len() <= 253
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
    };
    text(value)
        .map(|text| {
            text.strip_prefix('[')
                .and_then(|t| t.strip_suffix(']'))
                .unwrap_or(text)
        })
        .filter(|text| match text.parse::<IpAddr>() {
            // A server can listen on the unspecified address, but a client cannot connect to it.
            Ok(ip) => !ip.to_canonical().is_unspecified(),
            Err(_) => name(text),
        })
        .map_or_else(
            || bad(value, "a host name or an IP address, without a port or scheme"),
            |text| Ok(text.to_owned()),
        )
}

/// The canonical form of an address. Two spellings of one host become equal, as far as the text alone shows
/// it.
pub(super) fn host(address: &str) -> String {
    let name = address.trim_end_matches('.').to_lowercase();
    match name.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST => "localhost".to_owned(),
        Ok(ip) => ip.to_string(),
        Err(_) => name,
    }
}

/// A value of `[etcd.settings]`.
pub(super) fn setting(value: &Value) -> Read<String> {
    match &value.kind {
        Kind::Text(text) if !text.is_empty() && !text.chars().any(char::is_control) => Ok(text.clone()),
        Kind::Int(number) => Ok(number.to_string()),
        Kind::Bool(flag) => Ok(flag.to_string()),
        Kind::Text(text) if text.is_empty() => {
            Err("found an empty text, which etcd would ignore: leave the key out".to_owned())
        }
        _ => bad(value, "a text on one line, an integer, true or false"),
    }
}
