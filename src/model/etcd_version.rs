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

#[cfg(test)]
mod tests {
    use super::*;

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
