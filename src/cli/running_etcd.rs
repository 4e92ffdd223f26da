//! Where the etcd that runs on this host has its write-ahead log, before an agent manages it.

use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::systemd;
use crate::paths::Paths;
use crate::unit::apply::{Origins, named_log};
use crate::unit::{DataDirs, process};

const ETCD: &str = "etcd.service";
const FLAG: &str = "wal-dir";

/// The `wal-dir` of the running etcd; `None` if its log is in its data directory.
pub(super) async fn wal_dir(data_dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let unknown = |why: String| {
        Failure::failed(format!(
            "the settings of the running etcd are not known: {why}; run it as root"
        ))
    };
    let pid = systemd::main_pid(ETCD)
        .await
        .map_err(|error| unknown(error.to_string()))?;
    let dir = Path::new("/proc").join(pid.to_string());
    let settings = process::settings(&dir)
        .map_err(|error| unknown(format!("{}: {error}", dir.display())))?
        .ok_or_else(|| unknown(format!("process {pid} has ended")))?;
    let own = DataDirs::new(data_dir.to_owned(), None).own_log();
    let named = settings.get(FLAG).filter(|dir| !dir.is_empty());
    Ok(named.map(PathBuf::from).filter(|dir| *dir != own))
}

/// As [`wal_dir`], for a configuration that is to keep it: refuses an etcd whose next start would have
/// another one, and one that gets it as a flag, which no setting of the agent beats.
pub(super) async fn wal_dir_to_keep(paths: &Paths, data_dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let runs = wal_dir(data_dir).await?;
    let env_file = paths.etcd_env();
    // It has a runtime of its own.
    let origins = tokio::task::spawn_blocking(move || Origins::read(&env_file))
        .await
        .map_err(|error| Failure::failed(error.to_string()))?
        .map_err(Failure::failed)?;
    let named = named_log(&origins);
    let own = DataDirs::new(data_dir.to_owned(), None).own_log();
    let next = named
        .as_ref()
        .map(|named| named.dir.clone())
        .filter(|dir| *dir != own);
    let shown = |dir: &Option<PathBuf>| dir.as_ref().unwrap_or(&own).display().to_string();
    if runs != next {
        return Err(Failure::refused(format!(
            "etcd runs with its write-ahead log in {}, and its next start would have it in {}{}: put that right, \
             `systemctl restart etcd`, then run init again",
            shown(&runs),
            shown(&next),
            named.map_or_else(String::new, |named| format!(" ({})", named.place))
        )));
    }
    match named.filter(|named| named.is_flag) {
        Some(named) => Err(Failure::refused(format!(
            "{}: the flag `--wal-dir={dir}` beats each setting of the agent: remove it, put `ETCD_WAL_DIR={dir}` in a \
             file that etcd.service reads with EnvironmentFile= (Debian: /etc/default/etcd, Fedora and EL: \
             /etc/etcd/etcd.conf, SUSE: /etc/sysconfig/etcd), `systemctl daemon-reload`, `systemctl restart etcd`, \
             then run init again",
            named.place,
            dir = named.dir.display()
        ))),
        None => Ok(runs),
    }
}
