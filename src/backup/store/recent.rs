//! The newest backups for the status page, from a listing that was made anyway.

use std::collections::BTreeMap;

use crate::model::{ClusterName, RecentBackup, Revision, SeenVerification, UnixMs};
use crate::ports::{ObjectMeta, ObjectStore, PortResult};

use super::catalogue::verification;
use super::chain;
use super::layout::{Layout, VERIFICATION};
use super::listing::committed;

/// How many are kept: a day of full backups and the older ones that retention keeps by default.
const KEPT: usize = 48;

/// The newest of the listed backups, oldest first. What was read of a verification before is taken from
/// `known` if the object has not changed since.
pub(super) fn recent(layout: &Layout, objects: &[ObjectMeta], known: &[RecentBackup]) -> Vec<RecentBackup> {
    let changed: BTreeMap<&str, Option<UnixMs>> = objects
        .iter()
        .filter(|object| object.key.ends_with(VERIFICATION))
        .map(|object| (object.key.as_str(), object.modified))
        .collect();
    let all = committed(layout, objects);
    let newest = all.iter().skip(all.len().saturating_sub(KEPT));
    newest
        .filter_map(|(name, found)| {
            let id = name.id().ok()?;
            let changed = changed.get(layout.in_backup(&id, VERIFICATION).as_str()).copied();
            let before = known.iter().find(|backup| backup.id == id);
            let verification = match (changed, before) {
                (None, _) => SeenVerification::None,
                (Some(changed), Some(before)) if before.verification_changed == changed => {
                    before.verification.clone()
                }
                (Some(_), _) => SeenVerification::Unread,
            };
            let size = if found.native {
                found.zstd_bytes.or(found.gzip_bytes)
            } else {
                found.gzip_bytes
            };
            let first = found
                .increments
                .first()
                .map(|range| range.first.0.saturating_sub(1));
            Some(RecentBackup {
                id,
                at: name.at(),
                size_bytes: size,
                increments: found.increments.len(),
                covered: first.map_or(Revision(0), |first| {
                    chain::covered(&found.increments, Revision(first))
                }),
                verification,
                verification_changed: changed.flatten(),
            })
        })
        .collect()
}

/// Reads the results of verifications that were not read yet.
///
/// # Errors
/// What the store answered to the first read that failed. What was read until then stays.
pub async fn read_verifications(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    recent: &mut [RecentBackup],
) -> PortResult<()> {
    let layout = Layout::of(store, cluster);
    let unread = recent
        .iter_mut()
        .filter(|backup| backup.verification == SeenVerification::Unread);
    for backup in unread {
        backup.verification = match verification(store, &layout, &backup.id).await? {
            Ok(Some(verified)) => SeenVerification::Read(verified),
            // It is of another format, or was deleted just now: the backup can be verified again.
            Ok(None) => SeenVerification::None,
            Err(why) => SeenVerification::Unreadable(why),
        };
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backup::testing::{cluster, store};
    use crate::model::Verified;

    #[tokio::test]
    async fn the_listing_shows_the_newest_and_results_are_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let name = |number: usize| format!("prod/2023-11-14T22:{number:02}:20Z-{number:06}");
        for number in 0..KEPT + 2 {
            let objects = [("etcd.backup.zst", &b"12345"[..]), ("backup.json", b"{}")];
            for (file, content) in objects {
                let key = format!("{}/{file}", name(number));
                store.put(&key, Bytes::copy_from_slice(content)).await.unwrap();
            }
        }
        let last = name(KEPT + 1);
        for (file, content) in [
            ("increments/8-9.zst", "x"),
            ("increments/10-12.zst", "x"),
            ("verify.json", "{}"),
        ] {
            let key = format!("{last}/{file}");
            store
                .put(&key, Bytes::from_static(content.as_bytes()))
                .await
                .unwrap();
        }
        let layout = Layout::of(&store, &cluster());
        let objects = store.list(layout.base()).await.unwrap();

        let mut found = recent(&layout, &objects, &[]);
        assert_eq!(found.len(), KEPT);
        assert_eq!(found[0].id.as_str(), name(2).strip_prefix("prod/").unwrap());
        let newest = found.last().unwrap().clone();
        let seen = (
            newest.size_bytes,
            newest.increments,
            newest.covered,
            &newest.verification,
        );
        assert_eq!(seen, (Some(5), 2, Revision(12), &SeenVerification::Unread));
        assert_eq!(found[0].verification, SeenVerification::None);

        // Nobody understands `{}`.
        read_verifications(&store, &cluster(), &mut found).await.unwrap();
        assert_eq!(found.last().unwrap().verification, SeenVerification::None);
        let read = SeenVerification::Read(Verified {
            at: UnixMs(1),
            problems: Vec::new(),
        });
        found.last_mut().unwrap().verification = read.clone();
        let again = recent(&layout, &objects, &found);
        assert_eq!(again.last().unwrap().verification, read, "it has not changed");
        found.last_mut().unwrap().verification_changed = Some(UnixMs(7));
        let again = recent(&layout, &objects, &found);
        assert_eq!(again.last().unwrap().verification, SeenVerification::Unread);
    }
}
