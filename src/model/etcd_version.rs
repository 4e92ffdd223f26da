//! Which versions of etcd are supported.

/// The oldest supported version: major and minor.
const LEAST: (u64, u64) = (3, 5);

/// The first version that does not store the promotion of a learner in its database:
/// <https://github.com/etcd-io/etcd/issues/19557>.
const LOSES_PROMOTIONS: (u64, u64, u64) = (3, 5, 1);

/// The first 3.5 that stores promotions (3.5.20 and later do) and also repairs the databases that older
/// versions left: <https://github.com/etcd-io/etcd/issues/20793>.
const STORES_PROMOTIONS: (u64, u64, u64) = (3, 5, 26);

/// True if this version of etcd, e.g. `3.4.23`, is older than the oldest supported one. False for a text that
/// is not a version.
pub fn is_too_old(version: &str) -> bool {
    matches!(numbers(version)[..], [major, minor, ..] if (major, minor) < LEAST)
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
mod tests {
    use super::*;

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
    fn h08_what_is_older_than_3_5_is_too_old() {
        for old in ["3.4.23", "3.3.0", "2.3.8", "v3.4.0", "3.4"] {
            assert!(is_too_old(old), "{old}");
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
            assert!(!is_too_old(good), "{good}");
        }
    }
}
