//! The keys of etcd's v2 API, which no version of the v3 API and no backup contains. etcd 3.4 and 3.5 serve them with
//! `enable-v2`; 3.6 does not start on them. Nor does it start if the promotion of learners is only in the store of v2.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{EtcdVersion, Fact, MemberId, SteadyMs};

/// The first minor without the v2 API.
pub const WITHOUT_V2: (u64, u64) = (3, 6);

/// The number of learners with which etcd 3.6 still starts (`--max-learners` by default).
const MOST_LEARNERS: usize = 1;

/// What a member's disk says of the store of v2: its newest snapshot of raft, the log after it, and the database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct V2Names {
    /// The number of keys. Some may be gone: the log does not tell which conditions failed and what has expired.
    pub keys: u64,
    /// One of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The hidden keys and directories, whose names begin with `_`. etcd shows them to nobody who does not ask for them
    /// by name.
    #[serde(default)]
    pub hidden: BTreeSet<String>,
    /// True if the log holds a request of a client of the v2 API. etcd 3.6 panics on it (`v2ToV3Request` in its
    /// `server/etcdserver/apply_v2.go`), whatever the request did.
    #[serde(default)]
    pub in_log: bool,
    /// The members that the database has as learners. etcd 3.5.1 to 3.5.19 stored a promotion only in the store of v2
    /// (<https://github.com/etcd-io/etcd/issues/19557>).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub learners: BTreeSet<MemberId>,
}

impl V2Names {
    /// This number of keys and one of them, for people.
    pub fn in_words(keys: u64, example: Option<&str>) -> String {
        let example = example.unwrap_or("?");
        if keys == 1 {
            format!("etcd's v2 API holds the key {example:?}")
        } else {
            format!("etcd's v2 API holds {keys} keys, for example {example:?}")
        }
    }

    /// What an etcd without the v2 API does not start on; `None` if it starts.
    pub fn trouble(&self) -> Option<String> {
        match (self.keys, self.in_log) {
            (0, false) => None,
            (0, true) => Some("the log of etcd holds requests to its v2 API".to_owned()),
            (keys, _) => Some(Self::in_words(keys, self.example.as_deref())),
        }
    }

    /// True if the database has more learners than an etcd without the v2 API starts with.
    pub fn has_too_many_learners(&self) -> bool {
        self.learners.len() > MOST_LEARNERS
    }

    /// Why an etcd of version `to`, which has no v2 API, does not start on this disk, and what to do; `None` if it
    /// starts.
    pub fn objection(&self, to: EtcdVersion) -> Option<String> {
        if let Some(trouble) = self.trouble() {
            return Some(without_v2(to, &trouble));
        }
        self.has_too_many_learners().then(|| {
            let learners: Vec<String> = self.learners.iter().map(ToString::to_string).collect();
            format!(
                "etcd's database has the members {} as learners, and etcd {to} does not start with more than one: etcd \
                 before 3.5.26 did not store that they were promoted. Restart etcd on each member once more: \
                 `etcd-agent restart --rolling`",
                learners.join(", ")
            )
        })
    }
}

/// What this node knows of the keys of the v2 API on its disk. The disk is read only while a step to an etcd without
/// that API is wanted here. Members write snapshots of raft at different indexes, so another member's disk may say
/// something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct V2View {
    /// What the disk says; absent if it was not read, unreachable if it could not be read.
    pub found: Fact<V2Names>,
    /// When it was read.
    pub at: SteadyMs,
}

impl Default for V2View {
    fn default() -> Self {
        Self {
            found: Fact::Absent,
            at: SteadyMs::default(),
        }
    }
}

impl V2View {
    /// How long an answer counts: while etcd serves the API, a client may use it at any time. It is longer than the
    /// pause between two readings.
    pub const LASTS: Duration = Duration::from_secs(90);

    /// Why a member that runs `running` is not replaced by one of version `to`, as far as its disk decides that; `None`
    /// if it may be.
    pub fn objection(&self, now: SteadyMs, running: EtcdVersion, to: EtcdVersion) -> Option<String> {
        if !drops_v2(running, to) {
            return None;
        }
        let unknown = |why: &str| {
            Some(format!(
                "whether etcd's v2 API holds keys, on which etcd {to} does not start, is not known: {why}"
            ))
        };
        match &self.found {
            Fact::Unreachable(why) => unknown(why),
            Fact::Known(names) if now.since(self.at) < Self::LASTS => names.objection(to),
            Fact::Known(_) | Fact::Absent => unknown("etcd's log is read first"),
        }
    }

    /// True if the disk was not read, or so long ago that the answer does not count.
    pub fn is_unread(&self, now: SteadyMs) -> bool {
        match self.found {
            Fact::Absent => true,
            Fact::Known(_) => now.since(self.at) >= Self::LASTS,
            Fact::Unreachable(_) => false,
        }
    }

    /// What an etcd without the v2 API does not start on, if that was read lately.
    pub fn trouble(&self, now: SteadyMs) -> Option<String> {
        let names = self.found.known()?;
        names.trouble().filter(|_| now.since(self.at) < Self::LASTS)
    }
}

/// True for a step from an etcd with the v2 API to one without it.
pub fn drops_v2(running: EtcdVersion, to: EtcdVersion) -> bool {
    running.series() < WITHOUT_V2 && to.series() >= WITHOUT_V2
}

/// Says that a version does not start on this trouble, and what to do.
pub fn without_v2(to: EtcdVersion, trouble: &str) -> String {
    format!(
        "{trouble}, and etcd {to} does not start on them: delete the keys and stop their clients, and wait until etcd has \
         written a snapshot (snapshot-count in [etcd.settings]); or `etcd-agent move --to {to} --include-v2`"
    )
}

/// A key of the v2 API, as etcd serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V2Key {
    /// The name, which begins with `/`.
    pub name: String,
    /// The value. The v2 API is JSON, so it is text.
    pub value: String,
    /// The seconds after which it expires, by itself or with a directory above it.
    pub ttl: Option<i64>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn version(text: &str) -> EtcdVersion {
        text.parse().unwrap()
    }

    fn names(keys: u64, in_log: bool) -> V2Names {
        V2Names {
            keys,
            example: Some("/a".to_owned()),
            in_log,
            ..V2Names::default()
        }
    }

    #[test]
    fn only_a_step_to_an_etcd_without_the_v2_api_depends_on_its_keys() {
        let unread = V2View::default();
        for (running, to, depends) in [
            ("3.5.35", "3.6.16", true),
            ("3.4.23", "3.6.16", true),
            ("3.5.35", "3.5.40", false),
            ("3.4.23", "3.5.35", false),
            ("3.6.16", "3.7.3", false),
            ("3.6.16", "3.5.35", false),
        ] {
            let why = unread.objection(SteadyMs(1), version(running), version(to));
            assert_eq!(why.is_some(), depends, "{running} to {to}: {why:?}");
        }
    }

    #[test]
    fn c12_promotions_that_are_not_stored_hold_a_step_back() {
        let to = version("3.6.16");
        let with = |ids: &[u64]| V2Names {
            learners: ids.iter().copied().map(MemberId).collect(),
            ..V2Names::default()
        };
        for ids in [&[][..], &[0xb]] {
            assert_eq!(with(ids).objection(to), None, "{ids:?}");
        }
        let why = with(&[0xb, 0xc]).objection(to).unwrap();
        for part in ["the members b, c as learners", "restart --rolling"] {
            assert!(why.contains(part), "{why}");
        }
        let keys = V2Names {
            keys: 1,
            ..with(&[0xb, 0xc])
        };
        assert!(keys.objection(to).unwrap().contains("delete the keys"));
    }

    #[test]
    fn keys_of_v2_hold_a_step_back_and_no_answer_counts_forever() {
        let at = SteadyMs(1_000);
        let known = |keys, in_log| Fact::Known(names(keys, in_log));
        let table = [
            (known(0, false), 1_000, None),
            (known(0, false), 90_999, None),
            (known(0, false), 91_000, Some("is read first")),
            (
                known(1, true),
                1_000,
                Some("holds the key \"/a\", and etcd 3.6.16 does not start"),
            ),
            (known(7, false), 1_000, Some("holds 7 keys, for example \"/a\"")),
            (
                known(0, true),
                1_000,
                Some("the log of etcd holds requests to its v2 API"),
            ),
            (known(0, true), 91_000, Some("is read first")),
            (Fact::Absent, 1_000, Some("is read first")),
            (
                Fact::Unreachable("it is garbage".into()),
                1_000,
                Some("not known: it is garbage"),
            ),
        ];
        for (found, now, expected) in table {
            let view = V2View { found, at };
            let why = view.objection(SteadyMs(now), version("3.5.35"), version("3.6.16"));
            match expected {
                None => assert_eq!(why, None, "{view:?}"),
                Some(part) => assert!(
                    why.as_ref().is_some_and(|why| why.contains(part)),
                    "{view:?}: {why:?}"
                ),
            }
            let says = view.trouble(SteadyMs(now)).is_some();
            let is_old = now >= 91_000;
            assert_eq!(
                says,
                !is_old && view.found.known().is_some_and(|names| names.trouble().is_some())
            );
        }
        let why = without_v2(version("3.6.16"), "x");
        for part in [
            "delete the keys",
            "stop their clients",
            "snapshot-count",
            "move --to 3.6.16 --include-v2",
        ] {
            assert!(why.contains(part), "{why}");
        }
    }
}
