//! Runs the oneshot units, which do what only root or etcd's own user may do. The request is a file, systemd
//! runs the job, and the result is a file.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::connection::{Systemd, Verb};
use super::error::{Ask, port_error};
use crate::model::{Fact, InForce};
use crate::ports::{DataReport, DataRequest, PortError, PortResult, RestoreReport, VerifyRestoreRequest};
use crate::unit::HeldBy;
use crate::unit::data::{ReportFile, RequestFile};
use crate::unit::loaded::Fingerprint;
use crate::unit::result::ApplyResult;
use crate::unit::{boot, files, verify};

const APPLY: &str = "etcd-agent-apply.service";
const DATA: &str = "etcd-agent-data.service";
const VERIFY: &str = "etcd-agent-verify.service";
/// How long a verification may take to stop after the agent gave it up.
const STOP: Duration = Duration::from_mins(2);

pub(super) async fn apply(systemd: &Systemd, deadline: Duration) -> PortResult<InForce> {
    let path = systemd.shared.paths.apply_result();
    let before = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
    let job = systemd.run_job(Verb::Start, APPLY, deadline).await;
    let written = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
    if let Err(error) = job {
        // The result file says more than the job's result.
        return Err(match read::<ApplyResult>(&path) {
            Ok(Some(ApplyResult { error: Some(why), .. })) if written != before => PortError::Permanent(why),
            _ => error,
        });
    }
    if written == before {
        return Err(PortError::Retryable(format!("{APPLY} ended without a result")));
    }
    match read::<ApplyResult>(&path)? {
        Some(ApplyResult {
            in_force: Some(in_force),
            notes,
            ..
        }) => {
            for note in notes {
                tracing::info!("{note}");
            }
            Ok(in_force)
        }
        _ => Err(PortError::Retryable(format!("{APPLY} ended without a result"))),
    }
}

pub(super) async fn in_force(systemd: &Systemd) -> Fact<InForce> {
    let path = systemd.shared.paths.apply_result();
    let result = match read::<ApplyResult>(&path) {
        Ok(Some(result)) => result,
        Ok(None) => return Fact::Absent,
        Err(error) => return Fact::Unreachable(error.to_string()),
    };
    let Some(in_force) = result.in_force else {
        return Fact::Absent;
    };
    match current(systemd).await {
        Ok(Some(now)) if result.loaded.is_still(&now) => {
            warn_of_hidden(systemd, &now);
            Fact::Known(in_force)
        }
        Ok(_) => Fact::Absent,
        Err(error) => Fact::Unreachable(error.to_string()),
    }
}

/// Logs once which files the agent cannot follow.
fn warn_of_hidden(systemd: &Systemd, now: &Fingerprint) {
    let hidden: Vec<&str> = now.hidden().collect();
    if !hidden.is_empty() && !systemd.hidden_logged.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "the user etcd-agent may not look at {}: the agent notices changes there only when it writes etcd's settings \
             next; let others enter the directories (chmod o+x)",
            hidden.join(", ")
        );
    }
}

/// The current fingerprint; `None` if systemd has not read the files on disk.
async fn current(systemd: &Systemd) -> PortResult<Option<Fingerprint>> {
    let what = "read etcd.service";
    let live = systemd.live(what).await?;
    let failed = |error: zbus::Error| port_error(what, Ask::Read, &error);
    if live.need_daemon_reload().await.map_err(failed)? {
        return Ok(None);
    }
    let reloads = systemd.shared.reloads.load(Ordering::Relaxed);
    let mut cached = systemd.loaded.lock().await;
    // The loaded unit changes only on a reload, which systemd signals.
    if let Some((at, loaded)) = &*cached
        && *at == reloads
    {
        return Ok(Some(loaded.fingerprint()));
    }
    let loaded = live.loaded().await.map_err(failed)?;
    let fingerprint = loaded.fingerprint();
    *cached = Some((reloads, loaded));
    Ok(Some(fingerprint))
}

pub(super) async fn data(
    systemd: &Systemd,
    request: &DataRequest,
    serial: u64,
    deadline: Duration,
) -> PortResult<DataReport> {
    let paths = &systemd.shared.paths;
    let file = RequestFile {
        id: format!("{:016x}{serial:08x}", rand::random::<u64>()),
        boot_id: boot::id(),
        request: request.clone(),
    };
    let path = paths.data_request();
    let body = serde_json::to_vec_pretty(&file).map_err(|error| PortError::Permanent(error.to_string()))?;
    files::write_atomic(&path, &body, 0o644)
        .map_err(|error| PortError::Retryable(format!("writing {}: {error}", path.display())))?;
    systemd.run_job(Verb::Start, DATA, deadline).await?;
    let report = read::<ReportFile>(&paths.data_report())?.filter(|report| report.id == file.id);
    if let Some(held_by) = report.as_ref().and_then(|report| report.held_by.as_ref()) {
        remember(&paths.data_mount(), held_by)?;
    }
    match report {
        Some(ReportFile {
            report: Some(report), ..
        }) => Ok(report),
        Some(ReportFile {
            unknown: Some(why), ..
        }) => Err(PortError::Retryable(format!("{DATA}: {why}"))),
        _ => Err(PortError::OutcomeUnknown(format!(
            "{DATA} ended without a report (journalctl -u {DATA})"
        ))),
    }
}

/// Records on disk what holds the data, and the log if it is elsewhere.
fn remember(path: &Path, held_by: &HeldBy) -> PortResult<()> {
    if read::<HeldBy>(path).is_ok_and(|known| known.as_ref() == Some(held_by)) {
        return Ok(());
    }
    let body = serde_json::to_vec_pretty(held_by).map_err(|error| PortError::Permanent(error.to_string()))?;
    files::write_atomic(path, &body, 0o644)
        .map_err(|error| PortError::Retryable(format!("writing {}: {error}", path.display())))
}

pub(super) async fn verify_restore(
    systemd: &Systemd,
    request: &VerifyRestoreRequest,
    serial: u64,
    deadline: Duration,
) -> PortResult<RestoreReport> {
    let paths = &systemd.shared.paths;
    let file = verify::RequestFile {
        id: format!("{:016x}{serial:08x}", rand::random::<u64>()),
        boot_id: boot::id(),
        request: request.clone(),
    };
    let path = paths.verify_request();
    let body = serde_json::to_vec_pretty(&file).map_err(|error| PortError::Permanent(error.to_string()))?;
    files::write_atomic(&path, &body, 0o640)
        .map_err(|error| PortError::Retryable(format!("writing {}: {error}", path.display())))?;
    let snapshot = paths.verify().join(&request.snapshot_file);
    let bytes = std::fs::metadata(snapshot).map_or(0, |meta| meta.len());
    let ended = systemd
        .run_job(Verb::Start, VERIFY, deadline.min(verify::within(bytes)))
        .await;
    if let Err(PortError::OutcomeUnknown(why)) = ended {
        // Stop this verification, because the next one cannot start while it runs.
        let stopped = systemd.run_job(Verb::Stop, VERIFY, STOP).await;
        let then = stopped.map_or_else(|error| error.to_string(), |()| format!("{VERIFY} was stopped"));
        return Err(PortError::Retryable(format!("{why}; {then}")));
    }
    ended?;
    let report = read::<verify::ReportFile>(&paths.verify_report())?.filter(|report| report.id == file.id);
    match report {
        Some(verify::ReportFile {
            proof: Some(proof), ..
        }) => Ok(proof),
        Some(verify::ReportFile {
            unknown: Some(why), ..
        }) => Err(PortError::Retryable(format!("{VERIFY}: {why}"))),
        // The unit ran for an earlier request, or was stopped. Asking again is safe.
        _ => Err(PortError::Retryable(format!(
            "{VERIFY} ended without a report (journalctl -u {VERIFY})"
        ))),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> PortResult<Option<T>> {
    let failed = |why: String| PortError::Retryable(format!("reading {}: {why}", path.display()));
    match files::read_bounded(path) {
        Ok(None) => Ok(None),
        Ok(Some(body)) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
