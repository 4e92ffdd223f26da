//! `etcd-agent apply`, run by `etcd-agent-apply.service` as root: it puts the assignment in force.

pub mod allow;
mod conflicts;
mod exec_line;
mod foreign_log;
mod origins;
mod version;
mod view;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::loaded::Fingerprint;
use super::result::ApplyResult;
use super::{DataDirs, files, settings};
use crate::adapters::systemd::live::{ETCD, Live};
use crate::config::{self, Settings, env_file};
use crate::model::{Assignment, InForce, LoadState};
use crate::paths::Paths;
use crate::render;

pub use conflicts::conflicts;
pub use exec_line::{Flag, flags_of_process};
pub use foreign_log::{NamedLog, named_log, refuse_fixed};
pub use origins::Origins;
pub use version::selected_etcd;
pub use view::UnitView;

use view::systemd_major;

/// Writes what the assignment says, makes systemd read it, and reports what is in force. Fails when the
/// assignment is refused. What would override it is reported, and is not a failure.
///
/// Starts its own runtime, so it must not be called from within one.
pub fn run(paths: &Paths) -> ExitCode {
    if let Some(line) = config::no_longer_read(paths) {
        super::journal::say(&line);
    }
    let result = try_run(paths);
    let (result, code) = match result {
        Ok(result) => (result, ExitCode::SUCCESS),
        Err(why) => {
            super::journal::say(&format!("etcd-agent apply: {why}"));
            let refused = ApplyResult {
                in_force: None,
                loaded: Fingerprint::default(),
                notes: Vec::new(),
                error: Some(why),
            };
            (refused, ExitCode::FAILURE)
        }
    };
    let path = paths.apply_result();
    let written = serde_json::to_vec_pretty(&result)
        .map_err(io::Error::from)
        .and_then(|body| files::write_atomic(&path, &body, 0o644));
    if let Err(error) = written {
        super::journal::say(&format!("etcd-agent apply: writing {}: {error}", path.display()));
        return ExitCode::FAILURE;
    }
    code
}

fn try_run(paths: &Paths) -> Result<ApplyResult, String> {
    let mut settings = settings::load(paths)?;
    let assignment = read_assignment(paths)?;
    allow::check(&assignment, &settings)?;
    allow::check_transport(&assignment, &settings, &written(paths)?)?;
    if let Some(lost) = config::losses(paths, &settings)? {
        return Err(lost.one_line());
    }
    if let Some(version) = assignment.etcd_version {
        settings.spec.etcd.binary = Some(selected_etcd(&settings.spec.etcd, version)?);
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?
        .block_on(put_in_force(paths, &assignment, &settings))
}

fn read_assignment(paths: &Paths) -> Result<Assignment, String> {
    let path = paths.assignment();
    let body = files::read_bounded(&path)
        .map_err(|error| format!("reading {}: {error}", path.display()))?
        .ok_or_else(|| format!("{} is not there: nothing is assigned yet", path.display()))?;
    serde_json::from_slice(&body).map_err(|error| format!("{}: {error}", path.display()))
}

/// The environment that was written last; empty if there is none.
pub(in crate::unit) fn written(paths: &Paths) -> Result<BTreeMap<String, String>, String> {
    let path = paths.etcd_env();
    let body = files::read_bounded(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned();
    let assigned = env_file::parse(&text, u32::MAX).into_iter();
    Ok(assigned.map(|line| (line.key, line.value)).collect())
}

/// What was written.
struct Written {
    drop_in: PathBuf,
    /// Whether systemd has to read its files again.
    changed: bool,
    notes: Vec<String>,
}

/// Writes the environment file first, so that a drop-in never names a missing one.
fn write(paths: &Paths, assignment: &Assignment, settings: &Settings) -> Result<Written, String> {
    let spec = &settings.spec;
    allow::check_environment(&render::environment(assignment, spec))?;
    let env_file = paths.etcd_env();
    let env_text = render::env_file(assignment, spec).map_err(|error| error.to_string())?;
    let drop_in_text = render::drop_in(assignment, spec, &env_file).map_err(|error| error.to_string())?;
    files::write_if_changed(&env_file, env_text.as_bytes(), 0o644)
        .map_err(|error| format!("writing {}: {error}", env_file.display()))?;

    let persistent = paths.drop_in_dir().join(render::DROP_IN_NAME);
    match write_drop_in(&persistent, &drop_in_text) {
        Ok(changed) => Ok(Written {
            drop_in: persistent,
            changed,
            notes: Vec::new(),
        }),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            let runtime = paths.drop_in_dir_runtime().join(render::DROP_IN_NAME);
            let changed = write_drop_in(&runtime, &drop_in_text)
                .map_err(|error| format!("writing {}: {error}", runtime.display()))?;
            let note = format!(
                "{} is read-only, so the drop-in is {} and lost at each boot: without its agent this host then \
                 boots an etcd with other settings",
                persistent.display(),
                runtime.display()
            );
            Ok(Written {
                drop_in: runtime,
                changed,
                notes: vec![note],
            })
        }
        Err(error) => Err(format!("writing {}: {error}", persistent.display())),
    }
}

fn write_drop_in(path: &Path, text: &str) -> io::Result<bool> {
    if let Some(dir) = path.parent()
        && !dir.is_dir()
    {
        fs::create_dir_all(dir)?;
        if let Some(above) = dir.parent() {
            files::sync_dir(above)?;
        }
    }
    files::write_if_changed(path, text.as_bytes(), 0o644)
}

async fn put_in_force(
    paths: &Paths,
    assignment: &Assignment,
    settings: &Settings,
) -> Result<ApplyResult, String> {
    let failed = |what: &'static str| move |error: zbus::Error| format!("{what}: {error}");
    let live = Live::connect_to_reload()
        .await
        .map_err(failed("connecting to systemd"))?;
    let before = live.loaded().await.map_err(failed("reading etcd.service"))?;
    if before.load_state == LoadState::NotFound {
        return Err("etcd.service is not installed: install the distribution's etcd server".to_owned());
    }
    let systemd = live.manager.version().await;
    let systemd = systemd_major(&systemd.map_err(failed("reading systemd's version"))?);
    let need_daemon_reload = before.need_daemon_reload;
    let ours = render::environment(assignment, &settings.spec);
    let env_file = paths.etcd_env();
    let before = UnitView::read(before, ours.clone(), &env_file, Path::new(""), systemd);
    // Before anything is written: etcd would start without its log.
    let dirs = DataDirs::of(&settings.spec.etcd);
    foreign_log::refuse(&before, &dirs)?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    foreign_log::refuse_fixed(&dirs, &mountinfo)?;
    let written = write(paths, assignment, settings)?;
    let mut reload = written.changed || need_daemon_reload;
    // A host whose agent is broken must still boot its etcd.
    if live
        .manager
        .get_unit_file_state(ETCD)
        .await
        .is_ok_and(|state| state == "disabled")
    {
        live.manager
            .enable_unit_files(&[ETCD], false, false)
            .await
            .map_err(failed("enabling etcd.service"))?;
        reload = true;
    }
    if reload {
        live.manager.reload().await.map_err(failed("daemon-reload"))?;
    }
    let loaded = live.loaded().await.map_err(failed("reading etcd.service"))?;
    let fingerprint = loaded.fingerprint();
    let view = UnitView::read(loaded, ours, &env_file, &written.drop_in, systemd);
    let conflicts = if view.loaded.load_state == LoadState::Masked {
        Vec::new()
    } else {
        conflicts(&view)
    };
    for conflict in &conflicts {
        super::journal::say(&format!("not in force: {conflict}"));
    }
    for note in &written.notes {
        super::journal::say(note);
    }
    Ok(ApplyResult {
        in_force: Some(InForce {
            generation: assignment.generation,
            settings_digest: render::running_digest(assignment, &settings.spec),
            initial_state: assignment.initial_state,
            conflicts,
        }),
        loaded: fingerprint,
        notes: written.notes,
        error: None,
    })
}
