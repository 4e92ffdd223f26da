//! `etcd-agent config check`, `config show` and `config is-loaded`.

use std::fmt::Write;
use std::path::PathBuf;

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Format, Output};
use crate::config::{self, Entry, Loaded};
use crate::model::ReloadView;
use crate::paths::Paths;
use crate::unit::data::{archive_trouble, tls_troubles};
use crate::unit::files;

/// Check the configuration, or FILE as if it were already in place
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// A new version of the configuration file, e.g. the temporary copy of Puppet's `validate_cmd` or
    /// Ansible's `validate`
    file: Option<PathBuf>,
    /// Where FILE will be installed [default: /etc/etcd-agent/config.toml]
    #[arg(long = "as", value_name = "PATH", requires = "file")]
    place: Option<PathBuf>,
    /// Accept, as root, that this configuration drops the cluster name, peers or TLS of this node, or moves
    /// its data or log
    #[arg(long)]
    accept_losses: bool,
}

/// Check the configuration, or show the values in force
#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigVerb {
    Check(CheckArgs),
    /// Show every value in force and where it came from
    Show(Output),
    /// Say whether the agent works with the files on disk (exit code 0 yes, 1 no)
    ///
    /// If not, they have changed since the agent read them: `etcd-agent reload`.
    IsLoaded(Output),
}

/// Whether the agent works with the configuration on disk.
#[derive(Debug, serde::Serialize)]
pub(super) struct IsLoaded {
    pub(super) loaded: bool,
}

pub(super) fn check(paths: &Paths, args: CheckArgs) -> Outcome {
    let loaded = match args.file {
        Some(file) => {
            let place = args.place.unwrap_or_else(|| paths.config_file());
            config::check_candidate(paths, &file, &place)?
        }
        None => load(paths)?,
    };
    let warnings = config::warnings(&loaded.settings);
    let troubles = tls_troubles(&loaded.settings.spec);
    let archive = archive_trouble(&loaded.settings.spec);
    for line in config::no_longer_read(paths)
        .iter()
        .chain(&warnings)
        .chain(&troubles)
        .chain(&archive)
    {
        eprintln!("warning: {line}");
    }
    losses(paths, &loaded, args.accept_losses)?;
    let files: Vec<String> = loaded
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    out::print(&format!("ok: {}", files.join(", ")))?;
    Ok(Exit::Ok)
}

/// Refuses a configuration that drops what the node runs with, or records that the loss is accepted.
fn losses(paths: &Paths, loaded: &Loaded, accept: bool) -> Result<(), Failure> {
    let lost = match config::losses(paths, &loaded.settings) {
        Ok(None) => return Ok(()),
        Ok(Some(lost)) => lost,
        Err(why) => {
            eprintln!("warning: not compared with what this node runs ({why}): run it as root");
            return Ok(());
        }
    };
    if !accept {
        return Err(Failure::refused(lost));
    }
    let path = paths.accepted_losses();
    let text = config::loss_identity(&loaded.settings);
    files::write_atomic(&path, text.as_bytes(), 0o644)
        .map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))?;
    eprintln!("accepted: {}", lost.one_line());
    Ok(())
}

pub(super) fn show(paths: &Paths, output: Output) -> Outcome {
    let entries = load(paths)?.entries;
    match output.format {
        Format::Table => out::print(&render(&entries))?,
        _ => output.for_programs(&out::named("settings", &entries))?,
    }
    Ok(Exit::Ok)
}

pub(super) async fn is_loaded(paths: &Paths, output: Output) -> Outcome {
    // First what is on disk: a reload in between makes the answer no, which is safe.
    let on_disk = config::digest(paths)?;
    let view: ReloadView = Client::new(paths).get("/v1/reload").await?;
    let loaded = view.in_force.as_ref() == Some(&on_disk);
    output.print_own(&IsLoaded { loaded }, |answer| {
        let text = if answer.loaded {
            "the agent works with the files on disk"
        } else {
            "the files on disk are not in force: `etcd-agent reload`"
        };
        text.to_owned()
    })?;
    Ok(if loaded { Exit::Ok } else { Exit::Failed })
}

/// The configuration in force; its absence is a failure.
pub(super) fn load(paths: &Paths) -> Result<Loaded, Failure> {
    config::load(paths)?.ok_or_else(|| {
        let places: Vec<String> = paths
            .config_sources()
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        Failure::new(
            Exit::Usage,
            format!(
                "not configured: there is no file in {}; see `etcd-agent init`",
                places.join(", ")
            ),
        )
    })
}

pub(super) fn render(entries: &[Entry]) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} = {}", entry.field, entry.value))
        .collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, entry) in lines.iter().zip(entries) {
        let _ = writeln!(text, "{line:<width$}  # {}", entry.origin());
    }
    text
}
