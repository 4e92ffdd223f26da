//! Lists the backups in the store, in pages: a store may hold more than fits in one answer.

use crate::backup::{self, Part};
use crate::model::{BackupId, ListedBackup, Page, Verdict};
use crate::ports::PortResult;

use crate::agent::Agent;
use crate::agent::jobs::no_store;

/// Backups per page, of some hundred bytes each.
const PAGE: usize = 2000;

/// A page of the backups, oldest first: `only` this one, or those `after` that one.
///
/// # Errors
/// The error of the store.
pub(crate) async fn backups(
    agent: &Agent,
    only: Option<BackupId>,
    after: Option<BackupId>,
) -> PortResult<Page<ListedBackup>> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let part = only.map_or(Part::After(after, PAGE), Part::Only);
    let (catalogue, next) = backup::page(store.as_ref(), &agent.spec.cluster, &part).await?;
    let unreadable = catalogue.unreadable.into_iter();
    let unreadable = unreadable.map(|(id, unreadable)| ListedBackup::Unreadable { id, unreadable });
    let readable = catalogue.backups.into_iter().map(Box::new);
    let mut items: Vec<ListedBackup> = readable.map(ListedBackup::Readable).chain(unreadable).collect();
    items.sort_by(|a, b| a.id().cmp(b.id()));
    Ok(Page { items, next })
}

/// A page of retention's verdicts on the backups `after` that one, oldest first. All backups are judged each
/// time, because a verdict depends on the other backups.
///
/// # Errors
/// The error of the store.
pub(crate) async fn retention(agent: &Agent, after: Option<BackupId>) -> PortResult<Page<Verdict>> {
    Ok(after_that(
        crate::agent::jobs::prune::judged(agent).await?.verdicts,
        after.as_ref(),
        PAGE,
    ))
}

/// At most `most` verdicts after that backup. Begins with the first one if `after` is `None` or unknown.
fn after_that(verdicts: Vec<Verdict>, after: Option<&BackupId>, most: usize) -> Page<Verdict> {
    let id = |verdict: &Verdict| verdict.backup.summary.id.clone();
    let from = verdicts.iter().position(|verdict| Some(&id(verdict)) == after);
    let from = from.map_or(0, |at| at + 1);
    let more = verdicts.len() > from.saturating_add(most);
    let items: Vec<Verdict> = verdicts.into_iter().skip(from).take(most).collect();
    let next = items.last().filter(|_| more).map(id);
    Page { items, next }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{BackupSummary, Marks, Revision, StoredBackup, UnixMs, Writer};

    #[test]
    fn b05_each_is_listed_once_over_the_pages() {
        let ids: Vec<BackupId> = (0..25)
            .map(|n| BackupId::new(format!("b-{n:02}")).unwrap())
            .collect();
        let verdict = |id: &BackupId| Verdict {
            backup: StoredBackup {
                summary: BackupSummary {
                    id: id.clone(),
                    at: UnixMs(1),
                    revision: Revision(1),
                    size_bytes: 1,
                },
                writer: Writer::EtcdAgent,
                verified: None,
                verify_unreadable: None,
                epoch: None,
                timeline: None,
                went_back: None,
                revision_at_most: None,
                covered: Revision(1),
                marks: Marks::default(),
            },
            keep: Vec::new(),
        };
        for most in [1, 5, 10, 25, 26] {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = after_that(ids.iter().map(verdict).collect(), after.as_ref(), most);
                assert!(page.items.len() <= most);
                listed.extend(page.items.into_iter().map(|verdict| verdict.backup.summary.id));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed, ids, "{most}");
        }
    }
}
