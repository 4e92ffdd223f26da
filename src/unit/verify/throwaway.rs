//! An etcd for one inspection: restored from a snapshot, alone on the loopback interface, killed afterwards.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::adapters::etcd::LocalEtcd;
use crate::model::Revision;
use crate::ports::{Etcd, RestoreReport};

use super::certs;
use super::limits::Limits;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Another process may take a port between the check that it is free and etcd's own bind.
const TRIES: usize = 3;
const LOG_TAIL_BYTES: u64 = 16 << 10;

/// Restores the snapshot below `scratch` and asks an etcd that runs on it.
pub(super) async fn verify_restore(
    tool: &Path,
    etcd: &Path,
    snapshot: &Path,
    scratch: &Path,
    revision: Option<Revision>,
    limits: Limits,
) -> Result<RestoreReport, String> {
    let data = scratch.join("data");
    if let Some(why) = restore(tool, snapshot, scratch, &data, limits.restore).await? {
        return Ok(RestoreReport::Refused { why });
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let mut running = Running::start(etcd, scratch, &data)?;
        match running.look(revision, limits).await? {
            Look::Served(proof) => return Ok(proof),
            Look::Ended(why) if tries < TRIES && why.contains("address already in use") => {}
            Look::Ended(why) => return Ok(RestoreReport::Refused { why }),
        }
    }
}

/// Restores the snapshot; returns why the tool refused it, if it did.
async fn restore(
    tool: &Path,
    snapshot: &Path,
    scratch: &Path,
    data: &Path,
    within: Duration,
) -> Result<Option<String>, String> {
    let log = scratch.join("restore.log");
    let mut command = program(tool, &log)?;
    command.args(["snapshot", "restore"]).arg(snapshot).args([
        &format!("--data-dir={}", data.display()),
        "--name=verify",
        "--initial-cluster=verify=http://127.0.0.1:2380",
        "--initial-cluster-token=etcd-agent-verify",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
    ]);
    let mut child = spawn(&mut command, tool)?;
    let ended = timeout(within, child.wait()).await.map_err(|_| {
        let said = last_line(&log).unwrap_or_default();
        format!(
            "{} did not restore {} within {} s: {said}",
            tool.display(),
            snapshot.display(),
            within.as_secs()
        )
    })?;
    let status = ended.map_err(|error| format!("{}: {error}", tool.display()))?;
    if status.success() {
        return Ok(None);
    }
    refusal(tool, status, &log).map(Some)
}

/// Why a program ended by itself; an error if that says nothing about the snapshot.
fn refusal(program: &Path, status: ExitStatus, log: &Path) -> Result<String, String> {
    let said = last_line(log).unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("{name} ended with {status}: {said}");
    // Killed from outside, or a full disk.
    if status.code().is_none() || said.contains("no space left") {
        return Err(text);
    }
    Ok(text)
}

fn program(path: &Path, log: &Path) -> Result<Command, String> {
    let failed = |error: io::Error| format!("{}: {error}", log.display());
    let log = File::create(log).map_err(failed)?;
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("ETCDCTL_API", "3")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}

fn spawn(command: &mut Command, path: &Path) -> Result<Child, String> {
    command
        .spawn()
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// The last line that was logged, shortened.
fn last_line(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut text = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    // The first line of a panic says what happened, its last line says where.
    let telling = lines.iter().find(|line| {
        line.starts_with("panic:") || line.starts_with("Error:") || line.contains("\"level\":\"fatal\"")
    });
    let line = telling.or(lines.last()).copied().unwrap_or_default();
    Ok(line.chars().take(600).collect())
}

fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| format!("no port on the loopback interface: {error}"))
}

enum Look {
    Served(RestoreReport),
    /// It ended by itself, and says why.
    Ended(String),
}

struct Running {
    child: Child,
    program: PathBuf,
    log: PathBuf,
    client: LocalEtcd,
}

impl Running {
    fn start(etcd: &Path, scratch: &Path, data: &Path) -> Result<Self, String> {
        let (client, peer) = (free_port()?, free_port()?);
        let log = scratch.join("etcd.log");
        let files = certs::make(scratch)?;
        let url = format!("https://127.0.0.1:{client}");
        let mut command = program(etcd, &log)?;
        command.args([
            "--name=verify".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={}", files.ca_file.display()),
            format!("--cert-file={}", files.cert_file.display()),
            format!("--key-file={}", files.key_file.display()),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            // Must equal the URL given to the restore; no peer ever connects to it.
            "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster=verify=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster-token=etcd-agent-verify".to_owned(),
            "--initial-cluster-state=existing".to_owned(),
            "--log-level=warn".to_owned(),
        ]);
        Ok(Self {
            child: spawn(&mut command, etcd)?,
            program: etcd.to_owned(),
            log,
            client: LocalEtcd::at_url(&url, Some(files))?,
        })
    }

    /// Waits until it serves, and fingerprints its data.
    async fn look(&mut self, revision: Option<Revision>, limits: Limits) -> Result<Look, String> {
        let until = Instant::now() + limits.serve;
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return refusal(&self.program, status, &self.log).map(Look::Ended);
            }
            match self.client.status().await {
                Ok(status) if status.leader.is_some() => break status,
                other => {
                    if Instant::now() >= until {
                        let why = other
                            .err()
                            .map_or_else(|| "no leader".to_owned(), |e| e.to_string());
                        let said = last_line(&self.log).unwrap_or_default();
                        return Err(format!(
                            "the throw-away etcd does not serve after {} s: {why}; its last log line: {said}",
                            limits.serve.as_secs()
                        ));
                    }
                }
            }
            sleep(LOOK_EVERY).await;
        };
        let at = revision.unwrap_or(status.revision);
        let asked = timeout(limits.ask, self.client.fingerprint(at, true)).await;
        let asked = asked.map_err(|_| {
            format!(
                "the throw-away etcd did not count its keys within {} s",
                limits.ask.as_secs()
            )
        })?;
        // If reading its data ends etcd, its database is bad.
        if asked.is_err()
            && let Ok(Ok(ended)) = timeout(Duration::from_secs(2), self.child.wait()).await
        {
            return refusal(&self.program, ended, &self.log).map(Look::Ended);
        }
        Ok(Look::Served(RestoreReport::Served {
            etcd_version: status.version,
            revision: status.revision,
            fingerprint: asked.ok(),
        }))
    }
}
