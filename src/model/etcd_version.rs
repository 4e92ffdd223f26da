//! Which versions of etcd are supported.

/// The least version that is: major and minor.
const LEAST: (u64, u64) = (3, 5);

/// Whether this version of etcd, e.g. `3.4.23`, is older than the least that is supported. A text that is no version is
/// not known to be.
pub fn is_too_old(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < LEAST,
        _ => false,
    }
}

/// The first 3.5 that writes the promotion of a learner into its database, and puts right what older ones left there:
/// <https://github.com/etcd-io/etcd/issues/19557>, <https://github.com/etcd-io/etcd/issues/20793>.
const STORES_PROMOTIONS: (u64, u64, u64) = (3, 5, 26);

/// True for an etcd that may forget, in its database, that a learner was promoted; false for what is no version.
pub fn forgets_promotions(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').splitn(3, '.');
    let mut number = || {
        let text = numbers.next()?;
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    match (number(), number(), number()) {
        (Some(major), Some(minor), Some(patch)) => {
            (3, 5, 0) <= (major, minor, patch) && (major, minor, patch) < STORES_PROMOTIONS
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_what_is_older_than_3_5_26_forgets_promotions() {
        for old in [
            "3.5.0",
            "3.5.16",
            "3.5.25",
            "v3.5.16",
            "3.5.16+dfsg",
            "3.5.9-rc.0",
        ] {
            assert!(forgets_promotions(old), "{old}");
        }
        for good in [
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
        for old in ["3.4.23", "3.3.0", "2.3.8", "v3.4.0"] {
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
