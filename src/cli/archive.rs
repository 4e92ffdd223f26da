//! `etcd-agent archive list|prune`: the data directories that were replaced on this host.

use std::path::PathBuf;

use serde::Serialize;

use super::archive_table;
use super::config::load;
use super::confirm::{Yes, on_a_terminal};
use super::direct::OrderArgs;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use crate::paths::Paths;
use crate::unit::DataDirs;
use crate::unit::data::{Archive, ArchiveError, Removal, is_archive_name};

/// List or remove data directories that were replaced here
///
/// They are in `etcd-agent-archive` next to the data directory. Run it as root.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ArchiveVerb {
    /// List the archived data directories, newest first
    List(ListArgs),
    /// Remove archived directories that retention no longer keeps, or named ones
    Prune(PruneArgs),
}

/// `archive list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// `archive prune`.
#[derive(Debug, clap::Args)]
pub(super) struct PruneArgs {
    /// Exactly these, as `archive list` shows them; default: what retention no longer keeps
    #[arg(value_name = "NAME", value_parser = archive_name)]
    names: Vec<String>,
    /// Also the newest one, or the newest of its cluster ID
    #[arg(long, requires = "names")]
    force: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    place: Place,
}

/// Which archive.
#[derive(Debug, clap::Args)]
struct Place {
    /// The archive next to this former `etcd.data_dir` or `etcd.wal_dir`
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What was removed, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Pruned {
    /// True if something was removed.
    pub(super) changed: bool,
    /// The bytes of those that were removed, or would be.
    pub(super) freed_bytes: u64,
    /// One line for people.
    pub(super) message: String,
    pub(super) archives: Vec<Removal>,
}

pub(super) fn run(paths: &Paths, verb: &ArchiveVerb) -> Outcome {
    match verb {
        ArchiveVerb::List(args) => list(paths, args),
        ArchiveVerb::Prune(args) => prune(paths, args, on_a_terminal()),
    }
}

fn list(paths: &Paths, args: &ListArgs) -> Outcome {
    let archive = open(paths, &args.place)?;
    let list = archive.list().map_err(Failure::failed)?;
    let now = out::now();
    args.output.list("archives", &list, |list| {
        archive_table::render(list, &archive.places(), now)
    })?;
    Ok(Exit::Ok)
}

/// Removes what retention no longer keeps, as the agent itself does, or what is named. An operator is asked about the
/// latter.
pub(super) fn prune(paths: &Paths, args: &PruneArgs, terminal: bool) -> Outcome {
    let (names, dry_run) = (&args.names, args.order.dry_run);
    if !names.is_empty() {
        args.yes.require(dry_run, terminal)?;
    }
    let archive = open(paths, &args.place)?;
    let removed = match (names.is_empty(), dry_run) {
        (true, true) => archive.surplus(),
        (true, false) => archive.prune(),
        (false, true) => archive.named(names, args.force),
        (false, false) => {
            let found = archive.named(names, args.force).map_err(failure)?;
            if !found.is_empty() {
                args.yes.confirm(&archive_table::question(&found))?;
            }
            archive.remove(names, args.force)
        }
    };
    let archives = removed.map_err(failure)?;
    let pruned = Pruned {
        changed: !dry_run && !archives.is_empty(),
        freed_bytes: archive_table::bytes(&archives),
        message: archive_table::message(&archives, names, dry_run),
        archives,
    };
    args.order.output.print_own(&pruned, |pruned| {
        archive_table::removals(&pruned.archives, dry_run) + &pruned.message
    })?;
    Ok(Exit::Ok)
}

/// The archive of the configured data directory, or that at a former place.
fn open(paths: &Paths, place: &Place) -> Result<Archive, Failure> {
    let settings = load(paths)?.settings;
    let dirs = if let Some(former) = &place.data_dir {
        let dir = std::path::absolute(former);
        let usage =
            |error: std::io::Error| Failure::new(Exit::Usage, format!("{}: {error}", former.display()));
        DataDirs::new(dir.map_err(usage)?, None)
    } else {
        let etcd = &settings.spec.etcd;
        let log = etcd.wal_dir.as_ref().map(|dir| paths.host(dir));
        DataDirs::new(paths.host(&etcd.data_dir), log)
    };
    Archive::open(&dirs, settings.archive).map_err(Failure::failed)
}

fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Refused(why) => Failure::refused(why),
        ArchiveError::Failed(why) => Failure::failed(why),
    }
}

/// A name in the archive. That of a log means its data too.
fn archive_name(text: &str) -> Result<String, String> {
    let name = text.strip_suffix(".wal").unwrap_or(text);
    if is_archive_name(name) {
        return Ok(name.to_owned());
    }
    Err(
        "expected a name as `etcd-agent archive list` shows it, such as 20261127T120000Z-restore-1-2"
            .to_owned(),
    )
}
