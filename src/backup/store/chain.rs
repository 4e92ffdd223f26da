//! The increments of a full backup, found by their names in the store.

use crate::model::{BackupId, Revision};
use crate::ports::ObjectMeta;

use super::layout::{INCREMENTS, Layout};

/// What one increment covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backup) struct Range {
    pub(in crate::backup) first: Revision,
    pub(in crate::backup) last: Revision,
}

/// The name of an increment's object below `increments/`.
pub(in crate::backup) fn file_name(first: Revision, last: Revision) -> String {
    format!("{first}-{last}.zst")
}

/// The revisions that a name covers; `None` if it is not the name of an increment.
pub(in crate::backup) fn parse_name(name: &str) -> Option<(Revision, Revision)> {
    let (first, last) = name.strip_suffix(".zst")?.split_once('-')?;
    let range = (Revision(first.parse().ok()?), Revision(last.parse().ok()?));
    let plain = file_name(range.0, range.1) == name;
    (plain && range.0 <= range.1 && range.0.0 > 0).then_some(range)
}

/// The increments of a backup among listed objects, in order.
pub(in crate::backup) fn ranges(layout: &Layout, id: &BackupId, objects: &[ObjectMeta]) -> Vec<Range> {
    let prefix = layout.in_backup(id, INCREMENTS);
    let mut ranges: Vec<Range> = objects
        .iter()
        .filter_map(|object| parse_name(object.key.strip_prefix(&prefix)?))
        .map(|(first, last)| Range { first, last })
        .collect();
    ranges.sort_unstable();
    ranges
}

/// The fewest increments that lead from `from` without a gap as far as possible, or past `until`. Two
/// coordinators at once leave overlapping ranges. They have the same changes of each revision, so any of them
/// will do.
pub(in crate::backup) fn path(ranges: &[Range], from: Revision, until: Option<Revision>) -> Vec<Range> {
    let mut path = Vec::new();
    let (mut covered, mut rest) = (from, ranges);
    while until.is_none_or(|until| covered < until) {
        let reach = rest.partition_point(|range| range.first <= covered.next());
        let (here, later) = rest.split_at(reach);
        let Some(best) = here.iter().max_by_key(|r| r.last).filter(|r| r.last > covered) else {
            break;
        };
        path.push(*best);
        covered = best.last;
        rest = later;
    }
    path
}

/// The newest revision that increments lead to from `from` without a gap.
pub(in crate::backup) fn covered(ranges: &[Range], from: Revision) -> Revision {
    path(ranges, from, None).last().map_or(from, |range| range.last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_tell_the_range() {
        assert_eq!(parse_name("5-70.zst"), Some((Revision(5), Revision(70))));
        for name in [
            "",
            "5-4.zst",
            "0-4.zst",
            "05-70.zst",
            "5-70",
            "5.zst",
            "-5.zst",
            "+5-6.zst",
            "a/5-6.zst",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    fn range(first: u64, last: u64) -> Range {
        Range {
            first: Revision(first),
            last: Revision(last),
        }
    }

    #[test]
    fn s33_overlaps_are_no_gaps_and_gaps_are() {
        let rows: &[(&str, &[Range], u64, &[Range])] = &[
            ("none", &[], 10, &[]),
            (
                "a chain",
                &[range(11, 12), range(13, 20)],
                20,
                &[range(11, 12), range(13, 20)],
            ),
            (
                "two coordinators",
                &[range(11, 12), range(11, 15), range(13, 20), range(16, 18)],
                20,
                &[range(11, 15), range(13, 20)],
            ),
            ("a gap", &[range(11, 12), range(14, 20)], 12, &[range(11, 12)]),
            ("nothing to begin with", &[range(12, 14)], 10, &[]),
            ("from before the full", &[range(5, 14)], 14, &[range(5, 14)]),
            ("all before the full", &[range(5, 10)], 10, &[]),
        ];
        for (what, ranges, reached, expected) in rows {
            assert_eq!(path(ranges, Revision(10), None), *expected, "{what}");
            assert_eq!(covered(ranges, Revision(10)), Revision(*reached), "{what}");
        }
        let chain = [range(11, 12), range(13, 20), range(21, 30)];
        assert_eq!(path(&chain, Revision(10), Some(Revision(13))), chain[..2]);
        assert_eq!(path(&chain, Revision(10), Some(Revision(10))), []);
    }

    proptest! {
        #[test]
        fn s33_what_any_set_covers_is_reached(mut sets in proptest::collection::vec((1_u64..60, 0_u64..9), 0..30), from in 0_u64..20) {
            sets.sort_unstable();
            let mut ranges: Vec<Range> = sets.iter().map(|(first, more)| range(*first, first + more)).collect();
            ranges.sort_unstable();
            let mut reached = from;
            while ranges.iter().any(|r| r.first.0 <= reached + 1 && r.last.0 > reached) {
                reached += 1;
            }
            prop_assert_eq!(covered(&ranges, Revision(from)), Revision(reached));
            let mut at = from;
            for step in path(&ranges, Revision(from), None) {
                prop_assert!(step.first.0 <= at + 1 && step.last.0 > at);
                at = step.last.0;
            }
        }
    }
}
