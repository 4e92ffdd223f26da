//! Versions of etcd: which are supported, and which steps between them are allowed.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A released version of etcd, e.g. `3.6.16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EtcdVersion {
    /// 3.
    pub major: u64,
    /// 6. etcd changes the format of its data between minors only.
    pub minor: u64,
    /// 16.
    pub patch: u64,
}

/// What runs, for people: this version, or else the etcd that the package of etcd brings.
pub fn etcd_or_package(version: Option<EtcdVersion>) -> String {
    version.map_or_else(
        || "the package's etcd".to_owned(),
        |version| format!("etcd {version}"),
    )
}

impl EtcdVersion {
    /// The version that an etcd reports, without what a distribution or a pre-release adds: 3.5.16 for
    /// `3.5.16+dfsg`. `None` for a text that is not a version.
    pub fn reported(text: &str) -> Option<Self> {
        match numbers(text)[..] {
            [major, minor, patch] => Some(Self { major, minor, patch }),
            _ => None,
        }
    }

    /// Major and minor.
    pub fn series(self) -> (u64, u64) {
        (self.major, self.minor)
    }

    /// Why an etcd that runs this version must not be replaced by one of version `to`; `None` if it may be.
    /// etcd supports mixed clusters of two successive minors
    /// (<https://etcd.io/docs/latest/upgrades/upgrading-etcd/>).
    pub fn upgrade_objection(self, to: Self) -> Option<String> {
        let next = (self.major, self.minor + 1);
        if to < self {
            return Some(format!(
                "{to} is older than {self}, and a downgrade is not an upgrade"
            ));
        }
        if to.series() != self.series() && to.series() != next {
            return Some(format!(
                "from {self} etcd can be upgraded to {}.{}, and not directly to {to}: upgrade one minor at a time",
                next.0, next.1
            ));
        }
        if to != self
            && let Some(why) = to.target_objection()
        {
            return Some(why);
        }
        let stores_promotions = self.patch >= STORES_PROMOTIONS.2;
        if self.series() == (3, 5) && to.series() == (3, 6) && !stores_promotions {
            return Some(format!(
                "{self} does not store that a learner was promoted, and 3.6 takes such a member for a learner: \
                 upgrade to 3.5.26 or a later 3.5 first (https://github.com/etcd-io/etcd/issues/20793)"
            ));
        }
        None
    }
}

impl EtcdVersion {
    /// Why an etcd that runs this version must not be replaced by the one that `etcd.service` starts by itself; `None`
    /// if it may be. Another patch of the same minor may also be an older one. `upward` says what is against a newer
    /// version.
    pub fn package_objection(
        self,
        package: Option<Self>,
        upward: impl FnOnce(Self) -> Option<String>,
    ) -> Option<String> {
        let Some(package) = package else {
            return Some("it is not known which version etcd.service starts by itself".to_owned());
        };
        if package > self {
            return upward(package);
        }
        let (major, minor) = self.series();
        (package.series() != self.series()).then(|| {
            format!(
                "etcd.service starts etcd {package} by itself, and {self} runs: install a package of etcd {major}.{minor}, \
                 or downgrade to {}.{} first",
                package.major, package.minor
            )
        })
    }
}

/// The first minor that can be downgraded: <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>.
const DOWNGRADES: (u64, u64) = (3, 6);

impl EtcdVersion {
    /// Why an etcd that runs this version must not be replaced by one of the older version `to`, after etcd has
    /// converted its data where that is necessary; `None` if it may be.
    pub fn downgrade_objection(self, to: Self) -> Option<String> {
        if to > self {
            return Some(format!(
                "{to} is newer than {self}, and an upgrade is not a downgrade"
            ));
        }
        let next = (to.major, to.minor + 1);
        if to.series() != self.series() && self.series() != next {
            return Some(format!(
                "from {self} etcd can be downgraded by one minor, and not directly to {to}: downgrade one minor at a time"
            ));
        }
        if to.series() != self.series() && self.series() < DOWNGRADES {
            return Some(format!(
                "etcd {self} cannot be downgraded to an older minor, 3.6 is the first that can: restore a backup with the \
                 older etcd"
            ));
        }
        if to != self
            && let Some(why) = to.target_objection()
        {
            return Some(why);
        }
        if to.series() == (3, 5) && to.patch < STORES_PROMOTIONS.2 && !forgets_promotions(&self.to_string()) {
            return Some(format!(
                "{to} does not store that a learner was promoted: take 3.5.26 or a later 3.5 \
                 (https://github.com/etcd-io/etcd/issues/20793)"
            ));
        }
        None
    }
}

/// The versions whose members may differ once etcd was killed under load: it could store that a change was applied
/// before it was. <https://github.com/etcd-io/etcd/blob/main/Documentation/postmortems/v3.5-data-inconsistency.md>.
const LOSES_CHANGES: RangeInclusive<(u64, u64, u64)> = (3, 5, 0)..=(3, 5, 2);

impl EtcdVersion {
    /// Why no cluster must be brought to this version; `None` if it may be. An etcd that runs it already may go on.
    pub fn target_objection(self) -> Option<String> {
        let bad = LOSES_CHANGES.contains(&(self.major, self.minor, self.patch));
        bad.then(|| {
            format!(
                "a member with etcd {self} can lose changes when it is killed under load, and then differs from the \
                 others: take 3.5.26 or a later 3.5 \
                 (https://github.com/etcd-io/etcd/blob/main/Documentation/postmortems/v3.5-data-inconsistency.md)"
            )
        })
    }
}

/// The last minor that reads the entries which etcd 3.5 wrote by its v2 API.
pub(super) const READS_V2: (u64, u64) = (3, 6);

impl EtcdVersion {
    /// Why a member that runs this version cannot start with version `to`, as far as its log decides that;
    /// `None` if it can. `v2_entries` is what is known of the log.
    pub fn log_objection(self, to: Self, v2_entries: Option<bool>) -> Option<String> {
        if self.series() > READS_V2 || to.series() <= READS_V2 {
            return None;
        }
        match v2_entries {
            Some(false) => None,
            Some(true) => Some(format!(
                "etcd's log still holds entries of etcd 3.5, on which {to} panics. etcd {self} drops them when it \
                 writes its next snapshot of raft, by default after 10,000 changes; etcd.settings snapshot-count = \
                 \"100\" lets it do that sooner"
            )),
            None => Some(format!(
                "it is not known yet whether etcd's log still holds entries of etcd 3.5, on which {to} panics: try again \
                 in some seconds"
            )),
        }
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for EtcdVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = Self::reported(text).filter(|version| version.to_string() == text);
        version.ok_or_else(|| format!("found {text:?}, expected a version of etcd such as 3.6.16"))
    }
}

impl TryFrom<String> for EtcdVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EtcdVersion> for String {
    fn from(version: EtcdVersion) -> Self {
        version.to_string()
    }
}

/// The oldest version that is fully supported: major and minor.
const LEAST: (u64, u64) = (3, 5);

/// The oldest version that runs at all, so that it can be upgraded: it has learners.
const LEAST_TO_UPGRADE: (u64, u64) = (3, 4);

/// The first version that does not store the promotion of a learner in its database:
/// <https://github.com/etcd-io/etcd/issues/19557>.
const LOSES_PROMOTIONS: (u64, u64, u64) = (3, 5, 1);

/// The first 3.5 that stores promotions (3.5.20 and later do) and also repairs the databases that older
/// versions left: <https://github.com/etcd-io/etcd/issues/20793>.
const STORES_PROMOTIONS: (u64, u64, u64) = (3, 5, 26);

/// True if this version of etcd, e.g. `3.4.23`, is older than the oldest one that is fully supported. False
/// for a text that is not a version.
pub fn is_old(version: &str) -> bool {
    is_older(version, LEAST)
}

/// True if this version of etcd, e.g. `3.3.10`, is older than the oldest one that runs. False for a text that
/// is not a version.
pub fn is_too_old(version: &str) -> bool {
    is_older(version, LEAST_TO_UPGRADE)
}

fn is_older(version: &str, least: (u64, u64)) -> bool {
    matches!(numbers(version)[..], [major, minor, ..] if (major, minor) < least)
}

/// True for an etcd whose database may lack the promotion of a learner; false for a text that is not a
/// version.
pub fn forgets_promotions(version: &str) -> bool {
    let forgets = LOSES_PROMOTIONS..STORES_PROMOTIONS;
    matches!(numbers(version)[..], [major, minor, patch] if forgets.contains(&(major, minor, patch)))
}

/// Major, minor and patch, as far as the text has them: 3, 5 and 16 for `v3.5.16+dfsg`.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.trim_start_matches('v').splitn(3, '.');
    let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    parts.map_while(number).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn version(text: &str) -> EtcdVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_as_written_and_as_reported() {
        for good in ["3.5.16", "3.6.0", "3.10.1"] {
            assert_eq!(version(good).to_string(), good);
        }
        for bad in [
            "",
            "3",
            "3.6",
            "v3.6.16",
            "3.6.16-rc.0",
            "03.6.16",
            "3.6.16.1",
            "../3.6.16",
            "3.6.99999999999999999999",
        ] {
            assert!(bad.parse::<EtcdVersion>().is_err(), "{bad}");
        }
        for reported in ["3.5.16", "v3.5.16", "3.5.16+dfsg", "3.5.16-rc.0"] {
            assert_eq!(
                EtcdVersion::reported(reported),
                Some(version("3.5.16")),
                "{reported}"
            );
        }
        assert_eq!(EtcdVersion::reported("not_decided"), None);
        assert!(version("3.10.0") > version("3.9.9"));
    }

    /// From which version, to which, and a part of the objection.
    type Case = (&'static str, &'static str, Option<&'static str>);

    fn check(table: &[Case], objection: fn(EtcdVersion, EtcdVersion) -> Option<String>) {
        for (from, to, expected) in table {
            let found = objection(version(from), version(to));
            match expected {
                None => assert_eq!(found, None, "{from} to {to}"),
                Some(part) => assert!(found.unwrap().contains(part), "{from} to {to}"),
            }
        }
    }

    #[test]
    fn upgrades_go_forward_one_minor_at_a_time() {
        let table = [
            ("3.5.16", "3.5.16", None),
            ("3.5.16", "3.5.35", None),
            ("3.5.26", "3.6.0", None),
            ("3.6.16", "3.7.3", None),
            ("3.7.0", "3.7.3", None),
            ("3.4.23", "3.5.16", None),
            ("3.5.16", "3.6.16", Some("3.5.26")),
            ("3.4.23", "3.5.0", Some("lose changes")),
            ("3.5.0", "3.5.1", Some("take 3.5.26 or a later 3.5")),
            ("3.5.1", "3.5.2", Some("v3.5-data-inconsistency.md")),
            ("3.5.1", "3.5.1", None),
            ("3.4.23", "3.5.3", None),
            ("3.5.2", "3.5.26", None),
            ("3.5.35", "3.7.3", Some("one minor at a time")),
            ("3.6.16", "4.0.0", Some("one minor at a time")),
            ("3.6.16", "3.6.1", Some("a downgrade is not an upgrade")),
            ("3.7.0", "3.6.16", Some("a downgrade is not an upgrade")),
        ];
        check(&table, EtcdVersion::upgrade_objection);
    }

    #[test]
    fn downgrades_go_back_one_minor_at_a_time_from_3_6_on() {
        let table = [
            ("3.6.16", "3.6.16", None),
            ("3.6.16", "3.6.1", None),
            ("3.5.20", "3.5.16", None),
            ("3.6.16", "3.5.35", None),
            ("3.7.3", "3.6.16", None),
            ("3.6.1", "3.6.16", Some("an upgrade is not a downgrade")),
            ("3.7.3", "3.5.35", Some("one minor at a time")),
            ("3.5.35", "3.4.30", Some("restore a backup")),
            ("3.6.16", "3.5.16", Some("take 3.5.26")),
            ("3.5.35", "3.5.16", Some("take 3.5.26")),
            ("3.6.16", "3.5.2", Some("lose changes")),
            ("3.5.16", "3.5.2", Some("lose changes")),
            ("3.5.2", "3.5.2", None),
        ];
        check(&table, EtcdVersion::downgrade_objection);
    }

    #[test]
    fn c12_from_3_5_1_to_3_5_25_promotions_are_forgotten() {
        for old in [
            "3.5.1",
            "3.5.16",
            "3.5.25",
            "v3.5.16",
            "3.5.16+dfsg",
            "3.5.9-rc.0",
        ] {
            assert!(forgets_promotions(old), "{old}");
        }
        for good in [
            "3.5.0",
            "3.5.26",
            "3.5.35",
            "3.6.0",
            "3.10.1",
            "3.4.23",
            "",
            "3",
            "3.5",
            "not_decided",
        ] {
            assert!(!forgets_promotions(good), "{good}");
        }
    }

    #[test]
    fn h08_what_is_older_than_3_5_is_old_and_before_3_4_too_old() {
        for old in ["3.4.23", "v3.4.0", "3.4"] {
            assert!(is_old(old) && !is_too_old(old), "{old}");
        }
        for too_old in ["3.3.0", "2.3.8", "v3.3.27", "3.3"] {
            assert!(is_old(too_old) && is_too_old(too_old), "{too_old}");
        }
        for good in [
            "3.5.0",
            "3.6.16",
            "3.10.1",
            "4.0.0-alpha.0",
            "",
            "not_decided",
            "3",
        ] {
            assert!(!is_old(good) && !is_too_old(good), "{good}");
        }
    }
}
