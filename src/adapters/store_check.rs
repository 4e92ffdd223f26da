//! Tries every right that the agent needs in its store, one after the other, and cleans up.
//!
//! All objects are `.etcd-agent-check-*` below `store.url`: rights elsewhere are not checked.

mod report;

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::TryStreamExt;

use crate::config::{StoreSettings, StoreUrl};
use crate::ports::{ObjectStore, PortError, PortResult};

use super::dir::DirStore;
use super::s3::S3Store;
use super::s3::conditional::{ignores_header, try_twice};

pub use report::{Found, Right, StoreReport, Tried};

const BODY: &[u8] = b"etcd-agent tries what it may do in this store\n";
/// The deadline for one right, the SDK's own retries included.
const DEADLINE: Duration = Duration::from_mins(2);

enum Opened {
    S3(S3Store),
    Directory(DirStore),
}

impl Opened {
    fn store(&self) -> &dyn ObjectStore {
        match self {
            Self::S3(store) => store,
            Self::Directory(store) => store,
        }
    }
}

/// Tries every right. Calls `tell` with each one before trying it.
pub async fn check_store(settings: &StoreSettings, mut tell: impl FnMut(Right)) -> StoreReport {
    let opened = match &settings.url {
        StoreUrl::S3 { bucket, prefix } => Opened::S3(S3Store::new(settings, bucket, prefix)),
        StoreUrl::Directory(path) => Opened::Directory(DirStore::new(path)),
    };
    let mut check = Check {
        opened,
        dir: format!(".etcd-agent-check-{:016x}", rand::random::<u64>()),
        shared: settings.shared,
        rights: Vec::new(),
    };
    for right in Right::ALL {
        tell(right);
        let found = check.look(right, &settings.url).await;
        check.rights.push(Tried { right, found });
    }
    let left_behind = check.clean().await;
    StoreReport {
        store: check.opened.store().describe(),
        ok: !check
            .rights
            .iter()
            .any(|tried| matches!(tried.found, Found::Failed { .. })),
        rights: check.rights,
        left_behind,
    }
}

struct Check {
    opened: Opened,
    /// The directory that holds all objects of this check.
    dir: String,
    shared: bool,
    rights: Vec<Tried>,
}

impl Check {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn works(&self, right: Right) -> bool {
        self.rights
            .iter()
            .any(|tried| tried.right == right && tried.found == Found::Ok)
    }

    /// True if the attempt may have had an effect.
    fn tried(&self, right: Right) -> bool {
        self.rights
            .iter()
            .any(|tried| tried.right == right && !matches!(tried.found, Found::Skipped { .. }))
    }

    async fn look(&self, right: Right, url: &StoreUrl) -> Found {
        if let Some(why) = self.pointless(right) {
            return Found::Skipped { why };
        }
        let tried = tokio::time::timeout(DEADLINE, self.attempt(right)).await;
        let error = match tried {
            Ok(Ok(())) => return Found::Ok,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", DEADLINE.as_secs()),
        };
        let denied = ["AccessDenied", "Forbidden", "AllAccessDisabled"];
        let advice = match url {
            StoreUrl::S3 { bucket, prefix } if denied.iter().any(|code| error.contains(code)) => {
                Some(allow(right, bucket, prefix))
            }
            _ => None,
        };
        Found::Failed { error, advice }
    }

    /// Why it makes no sense to try this, given the results so far.
    fn pointless(&self, right: Right) -> Option<String> {
        if self.tried(Right::Write) && !self.works(Right::List) && !self.works(Right::Write) {
            return Some("neither listing nor writing works".to_owned());
        }
        match right {
            Right::Create if !self.shared => Some("not needed: store.shared is false".to_owned()),
            Right::Create if !self.works(Right::Read) => {
                Some("needs reading, which does not work".to_owned())
            }
            Right::Read | Right::ReadRange | Right::Delete if !self.works(Right::Write) => {
                Some("there is no object to try it on".to_owned())
            }
            Right::ReadRange if matches!(self.opened, Opened::Directory(_)) => {
                Some("not needed in a directory".to_owned())
            }
            _ => None,
        }
    }

    async fn attempt(&self, right: Right) -> PortResult<()> {
        let store = self.opened.store();
        match right {
            Right::List => store.list(&self.dir).await.map(drop),
            Right::Write => store.put(&self.key("small"), Bytes::from_static(BODY)).await,
            Right::Create => {
                let key = self.key("once");
                let honoured = match &self.opened {
                    Opened::S3(store) => store.try_create(&key).await?,
                    Opened::Directory(store) => {
                        let create = |body| async { store.create(&key, body).await.map(Some) };
                        try_twice(create).await?
                    }
                };
                if honoured {
                    return Ok(());
                }
                Err(ignores_header(&store.describe()))
            }
            Right::Read => {
                let key = self.key("small");
                let stream = store.get(&key).await?.ok_or_else(|| lost(&key))?;
                let chunks: Vec<Bytes> = stream.try_collect().await?;
                same(&key, &chunks.concat(), BODY)
            }
            Right::ReadRange => match &self.opened {
                Opened::S3(store) => {
                    let key = self.key("small");
                    let tail = store.read_range(&key, 5).await?;
                    same(&key, &tail, BODY.get(5..).unwrap_or_default())
                }
                Opened::Directory(_) => Ok(()),
            },
            Right::Upload => self.upload(&self.key("parts")).await,
            Right::Abort => self.abort(&self.key("aborted")).await,
            Right::Delete => {
                let key = self.key("small");
                store.delete(&key).await?;
                // Without the right to list, the deletion cannot be checked. The report already names the
                // missing right.
                if !self.works(Right::List) || store.list(&key).await?.is_empty() {
                    return Ok(());
                }
                Err(PortError::Permanent(format!(
                    "{key} is still there after it was deleted"
                )))
            }
        }
    }

    async fn upload(&self, key: &str) -> PortResult<()> {
        match &self.opened {
            Opened::S3(store) => store.try_parts(key, Bytes::from_static(BODY), true).await,
            Opened::Directory(store) => {
                let mut upload = store.upload(key).await?;
                upload.write(Bytes::from_static(BODY)).await?;
                upload.complete().await
            }
        }
    }

    async fn abort(&self, key: &str) -> PortResult<()> {
        match &self.opened {
            Opened::S3(store) => store.try_parts(key, Bytes::from_static(BODY), false).await?,
            Opened::Directory(store) => {
                let mut upload = store.upload(key).await?;
                upload.write(Bytes::from_static(BODY)).await?;
                upload.abort().await?;
            }
        }
        // Without the right to list, the abort cannot be checked. The report already names the missing right.
        if self.works(Right::List) && !self.opened.store().list(key).await?.is_empty() {
            return Err(PortError::Permanent(format!(
                "{key} exists although its upload was aborted"
            )));
        }
        Ok(())
    }

    /// Removes the objects of the check; returns those that it could not remove.
    async fn clean(&self) -> Vec<String> {
        let began = Instant::now();
        let mut stays = Vec::new();
        let written = [
            ("small", self.works(Right::Write) && !self.works(Right::Delete)),
            ("once", self.tried(Right::Create)),
            ("parts", self.works(Right::Upload)),
        ];
        for (name, _) in written.into_iter().filter(|(_, written)| *written) {
            let key = self.key(name);
            let rest = DEADLINE.saturating_sub(began.elapsed());
            let deleted = tokio::time::timeout(rest, self.opened.store().delete(&key)).await;
            if !matches!(deleted, Ok(Ok(()))) {
                stays.push(key);
            }
        }
        stays
    }
}

/// The advice that names the action that a policy has to allow.
fn allow(right: Right, bucket: &str, prefix: &str) -> String {
    let below = if prefix.is_empty() {
        String::new()
    } else {
        format!("{prefix}/")
    };
    let on = if right == Right::List {
        format!("arn:aws:s3:::{bucket} with the prefix {below}*")
    } else {
        format!("arn:aws:s3:::{bucket}/{below}*")
    };
    format!("allow {} on {on}", right.action())
}

fn lost(key: &str) -> PortError {
    PortError::Permanent(format!("{key} was written but does not exist"))
}

fn same(key: &str, found: &[u8], wanted: &[u8]) -> PortResult<()> {
    if found == wanted {
        return Ok(());
    }
    Err(PortError::Permanent(format!(
        "{key} was read back with other bytes than were written"
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
