//! `etcd-agent move`: moves the cluster to any other version of etcd, as a new epoch with the same data.
//!
//! Each step leaves a trace that outlives this command: the quarantine in etcd's data, the backup in the store, the
//! epoch with the electors. So the command can be given again at any time, on any node.

use std::collections::BTreeSet;

use serde::Serialize;

use super::backup::named_in;
use super::client::Client;
use super::confirm::{Yes, on_a_terminal};
use super::direct::OrderArgs;
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::progress::{Progress, note};
use super::version_path::{members, running};
use super::wait::{self, Deadline, Timeout};
use crate::model::{
    AdminStatus, BackupId, Epoch, EpochEtcd, EtcdStatus, EtcdVersion, OperatorRequest, QuarantineOrder,
    QuarantineView, UnixMs,
};
use crate::paths::Paths;

/// Move the cluster to any other version of etcd
///
/// etcd refuses writes meanwhile, and a new epoch continues with the same data.
#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// The version, e.g. 3.4.37; every node has the whole release on disk, as /opt/etcd-v3.4.37/
    #[arg(long, value_name = "VERSION", required_unless_present = "cancel")]
    to: Option<EtcdVersion>,
    /// Carry the keys of etcd's v2 API (3.4, 3.5) into v3 first; stop its clients before
    #[arg(long, conflicts_with = "cancel")]
    include_v2: bool,
    /// End the quarantine of a move that has not opened its epoch
    #[arg(long, conflicts_with = "to")]
    cancel: bool,
    /// With --cancel: also if a node does not answer. In a moved epoch: also if the data could not be compared
    #[arg(long, requires = "cancel")]
    force: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// The result, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    pub(super) changed: bool,
    /// The backup that the new epoch continues with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<BackupId>,
    pub(super) message: String,
}

/// How far a move to a version is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// It has not opened its epoch.
    Before,
    /// Its epoch is open, and the quarantine has not ended.
    Opened,
    /// All members run that version and accept writes.
    Done,
}

pub(super) async fn run(paths: &Paths, args: MoveArgs) -> Outcome {
    let client = Client::new(paths).within(args.timeout.timeout);
    let Some(to) = args.to else {
        return cancel(&client, &args).await;
    };
    let deadline = Deadline::after(args.timeout.timeout);
    let mut progress = Progress::new();
    let seen = settled(&client, &deadline, &mut progress).await?;
    let stage = stage(&seen, to);
    if stage == Stage::Done {
        return report(&args, false, None, format!("every member runs etcd {to} already"));
    }
    if stage == Stage::Opened && args.order.dry_run {
        let text =
            format!("the epoch with etcd {to} is open; the data would be compared, and the quarantine ended");
        return report(&args, false, None, text);
    }
    let mut backup = None;
    if stage == Stage::Before {
        let trial: QuarantineView = client
            .post("/v1/quarantine", &begin(to, args.include_v2, true))
            .await?;
        let plan = plan(&seen, to, trial.v2_keys);
        if args.order.dry_run {
            return report(&args, false, None, plan);
        }
        args.yes.require(false, on_a_terminal())?;
        args.yes.confirm(&plan)?;
        note(&way_back(&seen));
        let begin = begin(to, args.include_v2, false);
        let work = open(&client, &seen, &begin, to, &deadline, &mut progress);
        backup = Some(wait::or_interrupted(work, FATE).await?);
    }
    let work = end(&client, to, &deadline, &mut progress);
    let compared = wait::or_interrupted(work, FATE).await?;
    drop(progress);
    report(
        &args,
        true,
        backup,
        format!("etcd {to} runs on every member and accepts writes; {compared}"),
    )
}

fn begin(to: EtcdVersion, include_v2: bool, dry_run: bool) -> QuarantineOrder {
    QuarantineOrder::Begin {
        to,
        dry_run,
        include_v2,
    }
}

/// What becomes of a move if the command is interrupted.
const FATE: &str = "etcd refuses writes until `etcd-agent move` is given again, or `etcd-agent move --cancel`; a new epoch \
                    that was ordered is opened";

fn report(args: &MoveArgs, changed: bool, backup: Option<BackupId>, message: String) -> Outcome {
    let moved = Moved {
        changed,
        backup,
        message,
    };
    args.order
        .output
        .print_own(&moved, |moved| moved.message.clone())?;
    Ok(Exit::Ok)
}

async fn cancel(client: &Client, args: &MoveArgs) -> Outcome {
    if args.order.dry_run {
        let text = "the quarantine would end, and etcd would accept writes".to_owned();
        return report(args, false, None, text);
    }
    let order = QuarantineOrder::End { force: args.force };
    let view: QuarantineView = client.post("/v1/quarantine", &order).await?;
    let text = match (view.changed, view.compared.is_empty()) {
        (false, _) => "the cluster is not in quarantine".to_owned(),
        (true, true) => "the quarantine has ended: etcd accepts writes, and nothing was moved".to_owned(),
        (true, false) => format!("the quarantine has ended: etcd accepts writes; {}", view.compared),
    };
    report(args, view.changed, None, text)
}

/// The status once no restore is under way on this node: a move that was interrupted may have ordered one.
async fn settled(
    client: &Client,
    deadline: &Deadline,
    progress: &mut Progress,
) -> Result<AdminStatus, Failure> {
    loop {
        let seen: AdminStatus = client.get("/v1/status/fresh").await?;
        if !seen.node.steering.restoring {
            return Ok(seen);
        }
        progress.say("a restore is under way on this node");
        deadline.next("the restore that is under way", progress).await?;
    }
}

fn stage(seen: &AdminStatus, to: EtcdVersion) -> Stage {
    let versions: BTreeSet<Option<EtcdVersion>> = members(seen).map(|(_, status)| running(status)).collect();
    let quarantined = health::serving(seen).values().any(|etcd| etcd.in_quarantine());
    let opened = seen.node.genesis.as_ref().and_then(|genesis| genesis.etcd);
    let moved = opened.is_some_and(|etcd| etcd.continues && etcd.version == to);
    let all = versions == BTreeSet::from([Some(to)]) && health::silent_members(seen).is_empty();
    match (moved, quarantined) {
        _ if all && !quarantined => Stage::Done,
        // Until all members serve, whether the quarantine has ended is not known.
        (true, quarantined) if quarantined || !all => Stage::Opened,
        _ => Stage::Before,
    }
}

fn plan(seen: &AdminStatus, to: EtcdVersion, v2_keys: usize) -> String {
    let from: BTreeSet<EtcdVersion> = members(seen).filter_map(|(_, status)| running(status)).collect();
    let from: Vec<String> = from.iter().map(ToString::to_string).collect();
    let v2 = match v2_keys {
        0 => String::new(),
        keys => {
            format!("First {keys} keys of etcd's v2 API are put into v3. Their clients must have stopped.\n")
        }
    };
    format!(
        "The cluster moves from etcd {} to {to}:\n{v2}  1. etcd refuses all writes on all members (quarantine), and still \
         serves reads\n  2. a full backup is taken\n  3. a new epoch opens from it with etcd {to}; the old data goes into \
         the archive, and for some seconds nothing is served\n  4. the data of each member is compared with the backup, \
         and etcd accepts writes again\nKeys, their versions and revisions, leases, users and roles stay as they are.\n",
        from.join(" and ")
    )
}

fn way_back(seen: &AdminStatus) -> String {
    let from = members(seen).filter_map(|(_, status)| running(status)).max();
    let from = from.map_or_else(|| "VERSION".to_owned(), |version| version.to_string());
    format!(
        "the way back: until the new epoch opens, `etcd-agent move --cancel`; later `etcd-agent move --to {from}` with what \
         is written until then, or `etcd-agent restore BACKUP --etcd-version {from}` without it"
    )
}

/// Begins the quarantine, takes the backup and opens the epoch.
async fn open(
    client: &Client,
    seen: &AdminStatus,
    begin: &QuarantineOrder,
    to: EtcdVersion,
    deadline: &Deadline,
    progress: &mut Progress,
) -> Result<BackupId, Failure> {
    progress.say("etcd is put into quarantine");
    let begun: QuarantineView = client.post("/v1/quarantine", begin).await?;
    if begun.v2_keys > 0 {
        note(&format!("{} keys of etcd's v2 API are in v3", begun.v2_keys));
    }
    let view = wait::submit(client, &OperatorRequest::Backup).await?;
    let taken = wait::done(client, view, deadline, progress).await?;
    let backup = named_in(&taken.message)?;
    progress.say(&format!("backup {backup} is taken"));
    let request = OperatorRequest::Restore {
        backup: backup.clone(),
        without: BTreeSet::new(),
        replace: None,
        etcd: Some(EpochEtcd {
            version: to,
            continues: true,
        }),
        above: None,
        asked: UnixMs::default(),
    };
    let before: Epoch = health::newest_epoch(seen);
    let view = wait::submit(client, &request).await?;
    wait::epoch_after(client, view, before, seen.size, deadline, progress).await?;
    Ok(backup)
}

/// Waits until every member runs that version, and ends the quarantine. Returns what was compared.
async fn end(
    client: &Client,
    to: EtcdVersion,
    deadline: &Deadline,
    progress: &mut Progress,
) -> Result<String, Failure> {
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(seen) => {
                let serving = health::serving(&seen);
                let listed = seen
                    .node
                    .members
                    .known()
                    .map_or(usize::MAX, |list| list.members.len());
                let on = |etcd: &&&EtcdStatus| EtcdVersion::reported(&etcd.version) == Some(to);
                let there = serving.values().filter(on).count();
                if there == listed {
                    break;
                }
                progress.say(&format!("{there} members serve with etcd {to}"));
            }
        }
        deadline.next("the new epoch", progress).await?;
    }
    progress.say("the data is compared with the backup");
    let order = QuarantineOrder::End { force: false };
    let view: QuarantineView = client.post("/v1/quarantine", &order).await?;
    Ok(match (view.changed, view.compared.is_empty()) {
        (false, _) => "the quarantine had ended already".to_owned(),
        (true, true) => "something was written since the move, so nothing was compared".to_owned(),
        (true, false) => view.compared,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::tests::fixture::{observation_of_an_epoch, status};
    use crate::model::{Fact, Genesis};

    fn seen(version: &str, errors: &[&str], moved: Option<EtcdVersion>) -> AdminStatus {
        let mut seen = status();
        let genesis = observation_of_an_epoch().me.genesis.unwrap();
        let peers = seen.peers.values_mut().filter_map(|peer| match peer {
            Fact::Known(status) => Some(status),
            _ => None,
        });
        for status in std::iter::once(&mut seen.node).chain(peers) {
            if let Fact::Known(etcd) = &mut status.etcd {
                version.clone_into(&mut etcd.version);
                etcd.errors = errors.iter().map(|error| (*error).to_owned()).collect();
            }
            status.genesis = Some(Genesis {
                etcd: moved.map(|version| EpochEtcd {
                    version,
                    continues: true,
                }),
                ..genesis.clone()
            });
        }
        seen
    }

    #[test]
    fn a_move_goes_on_where_it_was_interrupted() {
        type Case<'a> = (&'a str, &'a str, &'a [&'a str], Option<EtcdVersion>, Stage);
        let to: EtcdVersion = "3.4.23".parse().unwrap();
        let other: EtcdVersion = "3.7.3".parse().unwrap();
        let alarm = ["memberID:7310577378113058405 alarm:CORRUPT"];
        let table: [Case<'_>; 7] = [
            ("not begun", "3.7.3", &[], None, Stage::Before),
            ("in quarantine", "3.7.3", &alarm, None, Stage::Before),
            ("never moved, and there", "3.4.23", &[], None, Stage::Done),
            (
                "the old members are still seen",
                "3.7.3",
                &alarm,
                Some(to),
                Stage::Opened,
            ),
            ("opened", "3.4.23", &alarm, Some(to), Stage::Opened),
            ("done", "3.4.23", &[], Some(to), Stage::Done),
            ("moved elsewhere before", "3.7.3", &[], Some(other), Stage::Before),
        ];
        for (what, runs, errors, moved, expected) in table {
            let seen = seen(runs, errors, moved);
            assert_eq!(stage(&seen, to), expected, "{what}");
            if expected == Stage::Done {
                let mut silent = seen;
                silent.peers.values_mut().for_each(|peer| *peer = Fact::Absent);
                assert_ne!(stage(&silent, to), Stage::Done, "{what}, and nobody else answers");
            }
        }
    }
}
