//! The keys of etcd's v2 API before a move and an upgrade. No backup contains them: they are carried into the keys of
//! v3, or the order is refused. The alarm of the quarantine refuses no write of the v2 API, so what was carried is
//! compared once more in quarantine, and the clients of that API must have stopped.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::refused::refused;
use crate::agent::Agent;
use crate::model::{Backoff, EtcdVersion, Fact, Observation, V2Key, V2Names, V2View, WITHOUT_V2};
use crate::ports::{DataRequest, Inspection, PortError, PortResult};

/// Reading the newest snapshot of raft and the log after it takes seconds.
const READING: Duration = Duration::from_mins(2);
/// How long an order waits while the data directory is read for something else. Short enough for the client, which
/// waits 30 s for the answer.
const TURN: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
/// How many keys are read or put at once. etcd commits them together.
const AT_ONCE: usize = 32;
/// How many keys a refusal names.
const NAMED: usize = 3;

/// How a key of v2 is found in v3.
enum InV3 {
    Same,
    Absent,
    Differs(&'static str),
}

/// True unless the etcd here is known to have no v2 API.
pub(super) fn may_be_there(seen: &Observation) -> bool {
    let running = seen
        .me
        .etcd
        .known()
        .and_then(|etcd| EtcdVersion::reported(&etcd.version));
    running.is_none_or(|running| running.series() < WITHOUT_V2)
}

/// The keys of the v2 API.
///
/// # Errors
/// Permanent if there are some and they are not to be carried, or etcd does not serve them; otherwise of etcd or of the
/// owner of the data directory.
pub(super) async fn find(agent: &Agent, include: bool) -> PortResult<Vec<V2Key>> {
    let names = on_disk(agent).await?;
    match agent.ports.etcd.v2_keys(&names.hidden).await? {
        Some(keys) if include || keys.is_empty() => Ok(keys),
        Some(keys) => Err(refused(format_args!(
            "{}, and a move would lose them: add --include-v2, which carries them into v3",
            V2Names::in_words(keys.len() as u64, keys.first().map(|key| key.name.as_str()))
        ))),
        None if names.keys == 0 => Ok(Vec::new()),
        None => Err(refused(format_args!(
            "{}, and a move would lose them. etcd does not serve them: set enable-v2 = true in [etcd.settings] and let etcd \
             restart, then add --include-v2, or delete them",
            V2Names::in_words(names.keys, names.example.as_deref())
        ))),
    }
}

/// What the disk of this node says. The store of v2 is the same on all members.
async fn on_disk(agent: &Agent) -> PortResult<V2Names> {
    let request = DataRequest::Inspect(Inspection {
        v2_keys: true,
        ..Inspection::default()
    });
    let begun = agent.ports.clock.steady();
    let mut attempts = 0;
    let report = loop {
        match agent.ports.service.data(&request, READING).await {
            Err(PortError::Retryable(_)) if agent.ports.clock.steady().since(begun) < TURN => {
                attempts += 1;
                sleep(AGAIN.jittered(attempts, agent.ports.clock.random())).await;
            }
            answer => break answer?,
        }
    };
    report.v2_keys.ok_or_else(|| {
        let why = report.error.unwrap_or_else(|| "nothing was found out".to_owned());
        PortError::Retryable(format!("whether etcd's v2 API holds keys is not known: {why}"))
    })
}

/// Refuses if v3 has other values for some of the keys, and puts those that v3 does not have, unless `dry_run`.
pub(super) async fn carry(agent: &Agent, keys: &[V2Key], dry_run: bool) -> PortResult<()> {
    let found = look_up(agent, keys).await?;
    refuse_differing(&found)?;
    if dry_run {
        return Ok(());
    }
    let absent: Vec<V2Key> = found
        .into_iter()
        .filter_map(|(key, found)| matches!(found, InV3::Absent).then_some(key))
        .collect();
    let number = absent.len();
    let etcd = &agent.ports.etcd;
    stream::iter(absent)
        .map(|key| {
            let etcd = etcd.clone();
            async move { etcd.create(&key).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    if number > 0 {
        tracing::warn!("{number} keys of etcd's v2 API were put into v3");
    }
    Ok(())
}

/// Compares the keys with those of v3, once etcd refuses all other writes.
///
/// # Errors
/// Permanent if they differ: somebody has written meanwhile. Otherwise as [`find`].
pub(super) async fn compare(agent: &Agent, include: bool) -> PortResult<()> {
    let keys = find(agent, include).await?;
    let found = look_up(agent, &keys).await?;
    refuse_differing(&found)?;
    let absent = found.iter().find(|(_, found)| matches!(found, InV3::Absent));
    match absent {
        None => Ok(()),
        Some((key, _)) => Err(refused(format_args!(
            "the key {:?} of etcd's v2 API is not in v3: stop the clients of that API, `etcd-agent move --cancel`, then \
             again",
            key.name
        ))),
    }
}

async fn look_up(agent: &Agent, keys: &[V2Key]) -> PortResult<Vec<(V2Key, InV3)>> {
    let etcd = &agent.ports.etcd;
    stream::iter(keys.to_vec())
        .map(|key| {
            let etcd = etcd.clone();
            async move {
                let found = in_v3(&key, etcd.value(&key.name).await?);
                Ok((key, found))
            }
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

/// `found` is the value in v3, and whether it has a lease.
fn in_v3(key: &V2Key, found: Option<(Vec<u8>, bool)>) -> InV3 {
    let Some((value, leased)) = found else {
        return InV3::Absent;
    };
    if value != key.value.as_bytes() {
        return InV3::Differs("another value");
    }
    match (key.ttl.is_some(), leased) {
        (true, false) => InV3::Differs("no lease, and expires in v2"),
        (false, true) => InV3::Differs("a lease, and does not expire in v2"),
        _ => InV3::Same,
    }
}

fn refuse_differing(found: &[(V2Key, InV3)]) -> PortResult<()> {
    let differing: Vec<String> = found
        .iter()
        .filter_map(|(key, found)| match found {
            InV3::Differs(how) => Some(format!("{:?} has {how} in v3", key.name)),
            _ => None,
        })
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let named = differing
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    let more = differing.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    Err(refused(format_args!(
        "keys of etcd's v2 API cannot be carried into v3: {named}{more}. Make the values equal, or delete one of the two"
    )))
}

/// Refuses an upgrade to an etcd that does not start on what this disk has of the store of v2. Only the disk of this
/// node is read: each node reads its own before it takes the version (`V2View`). Unless `dry_run`, a clean answer
/// counts as this node's own reading. Another answer is not kept: the order is refused, and judged anew when it is
/// given again.
///
/// # Errors
/// Permanent if it would not start; otherwise of the owner of the data directory.
pub(super) async fn allow_upgrade(
    agent: &Agent,
    seen: &Observation,
    to: EtcdVersion,
    dry_run: bool,
) -> PortResult<()> {
    if to.series() < WITHOUT_V2 || !may_be_there(seen) {
        return Ok(());
    }
    let unit = agent.ports.service.etcd_unit().await?;
    let asked = agent.ports.clock.steady();
    let names = on_disk(agent).await?;
    if let Some(why) = names.objection(to) {
        return Err(refused(why));
    }
    if !dry_run {
        let found = V2View {
            found: Fact::Known(names),
            at: asked,
        };
        agent.shared.with(|inner| inner.data.keep_v2(&unit, found));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key(name: &str, ttl: Option<i64>) -> V2Key {
        V2Key {
            name: name.to_owned(),
            value: "x".to_owned(),
            ttl,
        }
    }

    #[test]
    fn a_key_of_v3_with_another_value_or_lifetime_is_refused_by_name() {
        type Case = (
            &'static str,
            Option<i64>,
            Option<(&'static str, bool)>,
            Option<&'static str>,
        );
        let table: [Case; 6] = [
            ("/absent", None, None, None),
            ("/same", None, Some(("x", false)), None),
            ("/leased", Some(9), Some(("x", true)), None),
            ("/other", None, Some(("y", false)), Some("another value")),
            ("/stays", Some(9), Some(("x", false)), Some("no lease")),
            ("/goes", None, Some(("x", true)), Some("a lease")),
        ];
        for (name, ttl, there, expected) in table {
            let key = key(name, ttl);
            let there = there.map(|(value, leased)| (value.as_bytes().to_vec(), leased));
            let refused = {
                let found = in_v3(&key, there);
                refuse_differing(&[(key, found)])
            };
            let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
            match expected {
                None => assert_eq!(said, "", "{name}"),
                Some(how) => assert!(said.contains(&format!("{name:?} has {how}")), "{said}"),
            }
        }
    }

    #[test]
    fn a_refusal_names_some_keys_and_counts_the_rest() {
        let keys: Vec<V2Key> = (0..5).map(|number| key(&format!("/{number}"), None)).collect();
        let found: Vec<_> = keys
            .into_iter()
            .map(|key| (key, InV3::Differs("another value")))
            .collect();
        let said = refuse_differing(&found).unwrap_err().to_string();
        assert!(
            said.contains("\"/2\"") && said.contains("and 2 more") && !said.contains("\"/3\""),
            "{said}"
        );
    }
}
