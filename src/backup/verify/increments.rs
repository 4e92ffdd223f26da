//! Compares the state that the increments of a backup lead to with the state of a member at that revision.

use std::fs::OpenOptions;

use crate::model::{ClusterName, Fingerprint, Revision};
use crate::ports::{Etcd, ObjectStore, PortError, PortResult, RestoreReport};

use super::finding::Found;
use crate::backup::full::pipeline::fingerprint;
use crate::backup::restore::error::FetchError;
use crate::backup::restore::fetch::FetchedSnapshot;
use crate::backup::restore::replay::replay;
use crate::backup::restore::room::Room;
use crate::backup::store::chain;
use crate::backup::store::layout::{INCREMENTS, Layout, MANIFEST};
use crate::backup::store::manifest::Manifest;
use crate::backup::store::timelines::is_living;

/// What is known of the state that the increments lead to.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) fingerprint: Option<Fingerprint>,
    /// The etcd that computed it.
    etcd_version: String,
}

/// Adds all increments to the fetched file, which may grow within `limits`. Returns the revision that they lead to,
/// and the size of the file; `None` if the full holds as much without them, and then the file is unchanged.
pub(super) async fn replayed(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    manifest: &Manifest,
    fetched: &FetchedSnapshot,
    limits: Room,
) -> Result<Option<(Revision, u64)>, FetchError> {
    let layout = Layout::of(store, cluster);
    let listed = store.list(&layout.in_backup(&manifest.id, INCREMENTS)).await?;
    let covered = chain::covered(&chain::ranges(&layout, &manifest.id, &listed), manifest.revision);
    if covered <= manifest.revision_at_most.unwrap_or(manifest.revision) {
        return Ok(None);
    }
    let path = &fetched.path;
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let file =
        opened.map_err(|error| PortError::Permanent(format!("cannot open {}: {error}", path.display())))?;
    let limit = limits.growth(path.parent().unwrap_or(path), fetched.size_bytes)?;
    let replayed = replay(store, &layout, manifest, covered, file, limit).await?;
    Ok(Some((covered, replayed.size_bytes)))
}

/// What a member of this cluster held at `covered`. If no member can answer, what the next full backup
/// records for a revision on the way there.
///
/// # Errors
/// What the store answered. A member that does not answer is no error.
pub(super) async fn held(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    manifest: &Manifest,
    covered: Revision,
    live: &dyn Etcd,
) -> PortResult<Held> {
    // A member that no longer has this history cannot answer for it.
    if is_living(store, cluster, manifest).await?
        && let Ok(status) = live.status().await
        && status.cluster_id == manifest.cluster_id
        && let Some(held) = fingerprint(live, &status, covered).await
        && (held.keys.is_some() || held.hash.is_some())
    {
        return Ok(Held {
            fingerprint: Some(held),
            etcd_version: status.version,
        });
    }
    let Some(next) = next(store, cluster, manifest).await? else {
        return Ok(Held::default());
    };
    let from = manifest.revision_at_most.unwrap_or(manifest.revision);
    let on_the_way = |print: &Fingerprint| from < print.revision && print.revision <= covered;
    Ok(Held {
        fingerprint: next.fingerprint.filter(on_the_way),
        etcd_version: next.etcd_version,
    })
}

/// The next full backup of the same etcd cluster.
async fn next(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    manifest: &Manifest,
) -> PortResult<Option<Manifest>> {
    let layout = Layout::of(store, cluster);
    let listed = store.list(layout.base()).await?;
    let mut later: Vec<_> = listed
        .iter()
        .filter_map(|object| layout.split(&object.key))
        .filter(|(_, file)| *file == MANIFEST)
        .filter_map(|(name, _)| name.id().ok())
        .filter(|id| *id > manifest.id)
        .collect();
    later.sort();
    let Some(id) = later.first() else {
        return Ok(None);
    };
    let text = match store.get_small(&layout.in_backup(id, MANIFEST)).await {
        Ok(text) => text,
        // The fingerprint of the next full is optional; a transient error is returned, so that it is tried
        // again.
        Err(PortError::Permanent(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let next = text.and_then(|text| Manifest::parse(id, &text).ok());
    Ok(next.filter(|next| next.cluster_id == manifest.cluster_id && next.breaks.is_none()))
}

/// Compares what the throw-away etcd has, increments included, with what a member held.
pub(super) fn judge(found: &mut Found, covered: Revision, held: &Held, proof: RestoreReport) {
    let (version, revision, there) = match proof {
        RestoreReport::Refused { why } => {
            let text = format!("with its increments it cannot be restored: {why}");
            found.problems.push(text);
            return;
        }
        RestoreReport::Served {
            etcd_version,
            revision,
            fingerprint,
        } => (etcd_version, revision, fingerprint),
    };
    found.increments_to = Some(covered);
    found.compared.push("increments".to_owned());
    // If a lease ends while the throw-away etcd serves, its keys are deleted under a later revision.
    if revision < covered {
        let text = format!("with its increments it ends at revision {revision} and not at {covered}");
        found.problems.push(text);
    }
    let (Some(said), Some(there)) = (held.fingerprint, there) else {
        return;
    };
    let at = said.revision;
    if let (Some(said), Some(there)) = (said.keys, there.keys) {
        found.compared.push("increment-keys".to_owned());
        if said != there {
            let text = format!(
                "with its increments it holds {there} keys at revision {at}, and the member held {said}"
            );
            found.problems.push(text);
        }
    }
    if let (Some(said), Some(there)) = (said.hash, there.hash)
        && said.compact_revision == there.compact_revision
        && held.etcd_version == version
    {
        found.compared.push("increment-hash".to_owned());
        if said.hash != there.hash {
            let text = format!(
                "with its increments it hashes to {:08x} at revision {at}, and the member to {:08x}",
                there.hash, said.hash
            );
            found.problems.push(text);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backup::testing::{cluster, etcd, id, meta, store};
    use crate::backup::trailer::snapshot;
    use crate::model::KvHash;
    use async_trait::async_trait;
    use bytes::Bytes;

    fn print(revision: u64, keys: u64, hash: u32) -> Fingerprint {
        Fingerprint {
            revision: Revision(revision),
            keys: Some(keys),
            hash: Some(KvHash {
                hash,
                compact_revision: Revision(1),
            }),
        }
    }

    #[test]
    fn s44_what_increments_lead_to_is_compared() {
        let served = |revision: u64, keys, hash| RestoreReport::Served {
            etcd_version: "3.6.16".to_owned(),
            revision: Revision(revision),
            fingerprint: Some(print(90, keys, hash)),
        };
        let refused = RestoreReport::Refused {
            why: "panic".to_owned(),
        };
        let all = "increments increment-keys increment-hash";
        let rows = [
            ("the same", true, "3.6.16", served(90, 5, 7), all, 0),
            ("a lease has ended", true, "3.6.16", served(91, 5, 7), all, 0),
            ("too few revisions", true, "3.6.16", served(89, 5, 7), all, 1),
            ("a key is missing", true, "3.6.16", served(90, 4, 7), all, 1),
            ("another value", true, "3.6.16", served(90, 5, 8), all, 1),
            (
                "another etcd",
                true,
                "3.5.35",
                served(90, 5, 8),
                "increments increment-keys",
                0,
            ),
            ("nobody knows", false, "", served(90, 4, 8), "increments", 0),
            ("not to be restored", true, "3.6.16", refused, "", 1),
        ];
        for (what, known, version, proof, compared, problems) in rows {
            let held = Held {
                fingerprint: known.then(|| print(90, 5, 7)),
                etcd_version: version.to_owned(),
            };
            let mut found = Found::default();
            judge(&mut found, Revision(90), &held, proof);
            assert_eq!(found.compared.join(" "), compared, "{what}");
            assert_eq!(found.problems.len(), problems, "{what}: {:?}", found.problems);
        }
    }

    /// A member that can answer for one revision, or for none.
    struct Knows(crate::backup::testing::FakeEtcd, Option<Fingerprint>);

    #[async_trait]
    impl Etcd for Knows {
        async fn status(&self) -> PortResult<crate::model::EtcdStatus> {
            self.0.status().await
        }
        async fn fingerprint(&self, revision: Revision, _: bool) -> PortResult<Fingerprint> {
            let known = self.1.filter(|known| known.revision == revision);
            known.ok_or_else(|| PortError::Permanent("compacted".to_owned()))
        }
        async fn past(&self, at: Revision) -> PortResult<crate::model::Past> {
            self.0.past(at).await
        }
        async fn members(&self, linearizable: bool) -> PortResult<crate::model::MemberList> {
            self.0.members(linearizable).await
        }
        async fn add_learner(&self, urls: &[String]) -> PortResult<crate::model::MemberId> {
            self.0.add_learner(urls).await
        }
        async fn remove_member(&self, id: crate::model::MemberId) -> PortResult<()> {
            self.0.remove_member(id).await
        }
        async fn update_member(&self, id: crate::model::MemberId, urls: &[String]) -> PortResult<()> {
            self.0.update_member(id, urls).await
        }
        async fn probe(&self, url: &str) -> PortResult<()> {
            self.0.probe(url).await
        }
        async fn promote(&self, id: crate::model::MemberId) -> PortResult<()> {
            self.0.promote(id).await
        }
        async fn move_leader(&self, to: crate::model::MemberId) -> PortResult<()> {
            self.0.move_leader(to).await
        }
        async fn snapshot(&self) -> PortResult<crate::ports::ByteStream> {
            self.0.snapshot().await
        }
        async fn hash_data(&self, revision: Revision) -> PortResult<crate::model::KvHash> {
            self.0.hash_data(revision).await
        }
    }

    #[tokio::test]
    async fn a_member_knows_best_then_the_next_full() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let mut next = Knows(etcd(snapshot(2)), Some(print(77, 5, 7)));
        let full = |at, of: &Knows| {
            let etcd = Knows(etcd(snapshot(2)), of.1);
            let store = &store;
            async move {
                crate::backup::take_full(&etcd, store, &meta(at), |_| {})
                    .await
                    .unwrap()
                    .id
            }
        };
        let first = full(1000, &next).await;
        let text = store
            .get_small(&format!("prod/{first}/backup.json"))
            .await
            .unwrap()
            .unwrap();
        let mut manifest = Manifest::parse(&first, &text).unwrap();
        (manifest.revision, manifest.revision_at_most) = (Revision(60), Some(Revision(61)));
        let held = async |live: &Knows| {
            held(&store, &cluster(), &manifest, Revision(90), live)
                .await
                .unwrap()
        };
        let (knows, silent) = (
            Knows(etcd(snapshot(2)), Some(print(90, 6, 9))),
            Knows(etcd(snapshot(2)), None),
        );
        assert_eq!(held(&knows).await.fingerprint, Some(print(90, 6, 9)));
        assert_eq!(held(&silent).await.fingerprint, None, "there is no next full yet");
        full(2000, &next).await;
        assert_eq!(held(&silent).await.fingerprint, Some(print(77, 5, 7)));
        // The next full is now one without a fingerprint.
        next.1 = None;
        full(1500, &next).await;
        assert_eq!(held(&silent).await.fingerprint, None);
        let key = format!("prod/{}/backup.json", id("1970-01-01T00:25:00Z-000042"));
        store.put(&key, Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(held(&silent).await.fingerprint, None, "it cannot be read");
    }
}
