//! The owner of the data directory: what it may use, and what it knows of the host.

use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::{ages, starts, tls_files, tool};
use crate::config::{ArchiveSettings, Settings};
use crate::etcd_versions::base_etcd;
use crate::model::{BaseEtcd, ClusterId, EtcdVersion, GateState, MemberId, is_old};
use crate::paths::Paths;
use crate::unit::apply::{Origins, written};
use crate::unit::mounts::{self, HeldBy, HeldDir, Mount};
use crate::unit::roots::roots_own;
use crate::unit::{DataDirs, files, selected};

/// The data directory, and what its owner may do with it.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) dirs: DataDirs,
    pub(crate) archive: ArchiveSettings,
    /// Where fetched snapshots are.
    pub(crate) restore: PathBuf,
    /// Where the restore tools may be.
    pub(crate) tools: tool::Programs,
    /// `etcd.binary`.
    pub(crate) binary: Option<PathBuf>,
    /// The user that the data must belong to.
    pub(crate) uid: u32,
    /// The member that has run here before, so that its data must hold something of raft's log.
    pub(crate) started: Option<(ClusterId, MemberId)>,
    /// Where the assigned member has its data and its log.
    pub(crate) assigned: Option<DataDirs>,
    /// Texts of `/etc/fstab` and `/proc/self/mountinfo`.
    pub(crate) mounts: (String, String),
    /// The time.
    pub(crate) now: fn() -> ages::Moment,
    /// Whether the file system of a directory is nearly full.
    pub(crate) short_of_space: fn(&Path) -> bool,
    /// Whether etcd's user can write to a directory.
    pub(crate) may_write: fn(&Path) -> std::io::Result<()>,
    /// What held the data when they were last seen.
    pub(crate) held_by: Result<Option<HeldBy>, String>,
    /// The environment file with the settings that are written for etcd.
    pub(crate) env_file: PathBuf,
    /// `/proc`.
    pub(crate) proc: PathBuf,
    /// Finds out what sets the settings of the next start. It is given the environment file.
    pub(crate) origins: fn(&Path) -> Result<Origins, String>,
    /// How etcd's last starts ended.
    pub(crate) starts: fn() -> Vec<starts::Start>,
    /// The certificate files that etcd may be started with.
    pub(crate) tls: Vec<tls_files::TlsSet>,
}

impl Owner {
    pub(super) fn new(paths: &Paths, settings: &Settings, uid: u32) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let gate = gate(&paths.gate());
        let started = gate.as_ref().filter(|gate| gate.started_once);
        Self {
            dirs: DataDirs::of(&settings.spec.etcd),
            archive: settings.archive,
            restore: paths.restore(),
            binary: settings.spec.etcd.binary.clone(),
            tools: tool::Programs::of_root(selected::etcd_binary(paths, settings).as_deref()),
            uid,
            started: started.map(|gate| (gate.cluster_id, gate.member_id)),
            assigned: gate.as_ref().map(DataDirs::of_gate),
            mounts: (read("/etc/fstab"), read("/proc/self/mountinfo")),
            now: ages::Moment::now,
            short_of_space,
            may_write,
            held_by: held_by(&paths.data_mount()),
            env_file: paths.etcd_env(),
            proc: "/proc".into(),
            origins: Origins::read,
            starts: starts::of_this_boot,
            tls: tls_files::sets(&settings.spec, &written(paths).unwrap_or_default()),
        }
    }

    /// The mount that a directory is on, or would be.
    pub(super) fn mount(&self, dir: &Path) -> Option<Mount> {
        mounts::of(dir, &self.mounts.1)
    }

    /// What holds the data now, or would.
    pub(super) fn holds_now(&self) -> Option<HeldBy> {
        let held = |dir: &Path| {
            Some(HeldDir {
                dir: dir.to_owned(),
                mount: self.mount(dir)?,
            })
        };
        let log = match self.dirs.wal() {
            Some(dir) => Some(held(dir)?),
            None => None,
        };
        Some(HeldBy {
            data: held(self.dirs.data())?,
            log,
        })
    }

    /// The etcd that `etcd.service` starts while no version is selected, if asked for, and the version of the installed
    /// etcd, if it is too old. The two are usually one file, which is then started once; else both are at the same
    /// time.
    pub(super) fn installed(&self, asks_base: bool) -> (Option<BaseEtcd>, Option<String>) {
        let base = if asks_base {
            base_etcd(self.binary.as_deref())
        } else {
            None
        };
        let installed = self.tools.etcd().ok();
        let path = base.as_ref().map(|(path, _)| path);
        // It has no version if somebody else than root can have put it there.
        let owned = path.filter(|path| roots_own("etcd", path).is_ok());
        let another = installed.as_ref().filter(|installed| owned != Some(*installed));
        let (says, other_says) = thread::scope(|scope| {
            let other = another.map(|path| scope.spawn(|| tool::etcd_version(path)));
            let says = owned.and_then(|path| tool::etcd_version(path));
            (says, other.and_then(|other| other.join().ok().flatten()))
        });
        let old = if another.is_some() {
            other_says
        } else {
            says.clone()
        };
        let base = base.map(|(_, file)| BaseEtcd {
            file,
            version: says.and_then(|says| EtcdVersion::reported(&says)),
        });
        (base, old.filter(|version| is_old(version)))
    }
}

/// The directory that holds this one.
pub(super) fn parent(dir: &Path) -> Result<&Path, String> {
    dir.parent()
        .ok_or_else(|| format!("{} has no parent directory", dir.display()))
}

/// Less than a tenth is free. Unknown counts as enough.
pub(super) fn short_of_space(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|stat| stat.f_bavail < stat.f_blocks / 10)
}

/// As its owner. A directory that is not there is not in the way.
fn may_write(dir: &Path) -> std::io::Result<()> {
    match access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        Err(error) if error != Errno::NOENT => Err(error.into()),
        _ => Ok(()),
    }
}

/// The gate's state. Without it no member is known to have run.
fn gate(path: &Path) -> Option<GateState> {
    serde_json::from_slice(&files::read_bounded(path).ok()??).ok()
}

/// What the agent remembers. A file that cannot be read is an error, not an absence.
fn held_by(path: &Path) -> Result<Option<HeldBy>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let Some(body) = files::read_bounded(path).map_err(|error| failed(error.to_string()))? else {
        return Ok(None);
    };
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|error| failed(error.to_string()))
}
