//! `etcd-agent verify-restore`, run by `etcd-agent-verify.service`: restores a fetched snapshot into a
//! throw-away etcd on a loopback interface of its own, and reports what that etcd holds.

mod certs;
mod limits;
mod throwaway;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::data::tool;
pub use super::data::tool::Programs;
use super::{boot, config_copy, files, selected};
use crate::config::Settings;
use crate::model::is_too_old;
use crate::paths::Paths;
use crate::ports::{RestoreReport, VerifyRestoreRequest};

use limits::Limits;
pub use limits::within;

/// What the agent writes: a request that is valid once, in one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFile {
    /// Random; the report carries it back.
    pub id: String,
    /// The kernel's boot ID: a request left over from an earlier boot is not carried out.
    pub boot_id: String,
    /// What to verify.
    pub request: VerifyRestoreRequest,
}

/// What is written back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportFile {
    /// The ID of the request.
    pub id: String,
    /// What was found.
    pub proof: Option<RestoreReport>,
    /// Why nothing could be found out; that says nothing about the snapshot.
    pub unknown: Option<String>,
}

/// Where snapshots are proved, and with what.
#[derive(Debug, Clone)]
pub struct Prover {
    /// Holds the fetched snapshot, and meanwhile the throw-away etcd's data, which is removed afterwards.
    pub dir: PathBuf,
    /// Where `etcdutl` (or `etcdctl`) and `etcd` may be.
    pub tools: Programs,
}

impl Prover {
    fn new(paths: &Paths, settings: &Settings) -> Self {
        Self {
            dir: paths.verify(),
            tools: Programs::of_root(selected::etcd_binary(paths, settings).as_deref()),
        }
    }

    /// Restores the snapshot and asks an etcd that runs on it.
    ///
    /// # Errors
    /// Why nothing could be found out: no tool, no room, no end within the deadline.
    pub async fn verify_restore(&self, request: &VerifyRestoreRequest) -> Result<RestoreReport, String> {
        let file = &request.snapshot_file;
        if file.is_empty() || file.contains('/') || file.starts_with('.') {
            return Err(format!("{file:?} is not a plain file name"));
        }
        let snapshot = self.dir.join(file);
        let meta = fs::symlink_metadata(&snapshot).ok().filter(fs::Metadata::is_file);
        let meta = meta.ok_or_else(|| format!("{} is not there", snapshot.display()))?;
        limits::loopback()?;
        let tool = self.tools.restore_tool()?;
        let etcd = self.tools.etcd()?;
        if let Some(version) = tool::etcd_version(&etcd).filter(|version| is_too_old(version)) {
            return Err(format!(
                "{} is etcd {version}, older than 3.4, the oldest that is used: install a newer one",
                etcd.display()
            ));
        }
        let scratch = Scratch::new(self.dir.join("scratch"))?;
        let limits = Limits::of(meta.len());
        throwaway::verify_restore(&tool, &etcd, &snapshot, &scratch.0, request.revision, limits).await
    }
}

/// A directory that is removed before and after its use.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: PathBuf) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::create_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Carries out the request in [`Paths::verify_request`]. Succeeds when a report was written, whatever it
/// says.
pub fn run(paths: &Paths) -> ExitCode {
    super::journal::exit_code("verify-restore", try_run(paths))
}

fn try_run(paths: &Paths) -> Result<(), String> {
    let path = paths.verify_request();
    let body = files::read_bounded(&path)
        .map_err(|error| format!("reading {}: {error}", path.display()))?
        .ok_or_else(|| format!("{} is not there: nothing was asked", path.display()))?;
    let file: RequestFile =
        serde_json::from_slice(&body).map_err(|error| format!("{}: {error}", path.display()))?;
    let proof = match config_copy::load(paths) {
        Ok(settings) if file.boot_id == boot::id() => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| format!("cannot start: {error}"))?;
            runtime.block_on(Prover::new(paths, &settings).verify_restore(&file.request))
        }
        Ok(_) => Err("the request is from an earlier boot".to_owned()),
        Err(why) => Err(why),
    };
    let report = ReportFile {
        id: file.id,
        unknown: proof.as_ref().err().cloned(),
        proof: proof.ok(),
    };
    let path = paths.verify_report();
    let body = serde_json::to_vec_pretty(&report).map_err(|error| error.to_string())?;
    files::write_atomic(&path, &body, 0o644).map_err(|error| format!("writing {}: {error}", path.display()))
}
