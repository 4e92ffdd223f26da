//! `etcd-agent config check`, `config show` and `config is-loaded`.

use std::fmt::Write;
use std::path::PathBuf;

use super::client::Client;
use super::confirm::Yes;
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
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output,
}

/// A configuration that was found to be good, as JSON.
#[derive(Debug, serde::Serialize)]
pub(super) struct Checked {
    /// True if losses were accepted now.
    pub(super) changed: bool,
    pub(super) files: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The losses that were accepted, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) accepted: Option<String>,
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
    let mut warnings: Vec<String> = config::no_longer_read(paths).into_iter().collect();
    warnings.extend(config::warnings(&loaded.settings));
    warnings.extend(tls_troubles(&loaded.settings.spec));
    warnings.extend(archive_trouble(&loaded.settings.spec));
    for line in &warnings {
        eprintln!("warning: {line}");
    }
    let (accepted, uncompared) = losses(paths, &loaded, args.accept_losses, args.yes)?;
    if let Some(line) = &uncompared {
        eprintln!("warning: {line}");
    }
    warnings.extend(uncompared);
    if let Some(lost) = &accepted {
        eprintln!("accepted: {lost}");
    }
    let files = loaded.files.iter().map(|file| file.display().to_string());
    let checked = Checked {
        changed: accepted.is_some(),
        files: files.collect(),
        warnings,
        accepted,
    };
    args.output
        .print_own(&checked, |checked| format!("ok: {}", checked.files.join(", ")))?;
    Ok(Exit::Ok)
}

/// Refuses a configuration that drops what the node runs with, or records that the loss is accepted. Returns what
/// was accepted, and a warning if the configuration could not be compared.
fn losses(
    paths: &Paths,
    loaded: &Loaded,
    accept: bool,
    yes: Yes,
) -> Result<(Option<String>, Option<String>), Failure> {
    let lost = match config::losses(paths, &loaded.settings) {
        Ok(None) => return Ok((None, None)),
        Ok(Some(lost)) => lost,
        Err(why) => {
            let warning = format!("not compared with what this node runs ({why}): run it as root");
            return Ok((None, Some(warning)));
        }
    };
    if !accept {
        return Err(Failure::refused(lost));
    }
    let lost = lost.one_line();
    yes.ask(&format!("This node gives up what it runs with: {lost}"))?;
    let path = paths.accepted_losses();
    let text = config::loss_identity(&loaded.settings);
    files::write_atomic(&path, text.as_bytes(), 0o644)
        .map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))?;
    Ok((Some(lost), None))
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
