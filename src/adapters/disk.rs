//! This node's persistent state: small JSON files, each written as temp + fsync + rename + fsync of the
//! directory.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::genesis::new_record;
use crate::model::{
    Assignment, Directives, ElectorRecord, EtcdRun, GateState, Generation, Incarnation, RebootLocks,
    SpecRecord,
};
use crate::paths::Paths;
use crate::ports::{NodeState, PortError, PortResult};

/// State files are small. The agent writes no larger one, because it could not read it again.
const LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// The agent's state directory.
#[derive(Debug)]
pub struct DiskState {
    paths: Paths,
}

impl DiskState {
    /// State below these paths.
    pub fn new(paths: Paths) -> Self {
        Self { paths }
    }
}

fn failed(verb: &str, path: &Path, error: &dyn std::fmt::Display) -> PortError {
    PortError::Permanent(format!("cannot {verb} {}: {error}", path.display()))
}

/// Reads a JSON state file; `None` if it does not exist.
///
/// # Errors
/// Permanent if it cannot be read, is too large or does not parse. Such a file is never treated as absent.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> PortResult<Option<T>> {
    let size = match fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, &error)),
    };
    if size > LIMIT_BYTES as u64 {
        return Err(failed(
            "read",
            path,
            &format!("it has {size} bytes, expected at most {LIMIT_BYTES}"),
        ));
    }
    let text = fs::read(path).map_err(|error| failed("read", path, &error))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        failed(
            "understand",
            path,
            &format!("{error}; restore the file from a backup, or reinstall this node's agent"),
        )
    })
}

/// Writes a JSON state file. After a crash either the old or the new one exists.
///
/// # Errors
/// Permanent, naming the path; also if [`read_json`] could not read it again. The former file stays then.
pub fn write_json<T: Serialize>(path: &Path, value: &T, mode: u32) -> PortResult<()> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| failed("write", path, &error))?;
    text.push(b'\n');
    if text.len() > LIMIT_BYTES {
        return Err(failed(
            "write",
            path,
            &format!(
                "it would have {} bytes, expected at most {LIMIT_BYTES}",
                text.len()
            ),
        ));
    }
    write_file(path, &text, mode)
}

fn write_file(path: &Path, text: &[u8], mode: u32) -> PortResult<()> {
    let dir = path
        .parent()
        .ok_or_else(|| failed("write", path, &"it has no directory"))?;
    let write = || -> std::io::Result<()> {
        let mut temp = tempfile::NamedTempFile::new_in(dir)?;
        temp.write_all(text)?;
        temp.as_file().set_permissions(Permissions::from_mode(mode))?;
        temp.as_file().sync_all()?;
        temp.persist(path).map_err(|error| error.error)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| failed("write", path, &error))
}

/// A new incarnation: 12 digits of time, so that a later memory sorts after an earlier one, and 20 random
/// digits.
fn new_incarnation() -> PortResult<Incarnation> {
    let ms = jiff::Timestamp::now().as_millisecond().unsigned_abs() & 0xffff_ffff_ffff;
    let random: u128 = rand::random::<u128>() & ((1 << 80) - 1);
    Incarnation::new(format!("{ms:012x}{random:020x}"))
        .map_err(|error| PortError::Permanent(error.to_string()))
}

impl NodeState for DiskState {
    fn elector(&self) -> PortResult<ElectorRecord> {
        if let Some(record) = read_json(&self.paths.elector())? {
            return Ok(record);
        }
        let record = new_record(new_incarnation()?);
        self.save_elector(&record)?;
        Ok(record)
    }

    fn save_elector(&self, record: &ElectorRecord) -> PortResult<()> {
        write_json(&self.paths.elector(), record, 0o600)
    }

    fn directives(&self) -> PortResult<Directives> {
        Ok(read_json(&self.paths.directives())?.unwrap_or_default())
    }

    fn save_directives(&self, directives: &Directives) -> PortResult<()> {
        write_json(&self.paths.directives(), directives, 0o600)
    }

    fn etcd_run(&self) -> PortResult<EtcdRun> {
        Ok(read_json(&self.paths.etcd_run())?.unwrap_or_default())
    }

    fn save_etcd_run(&self, run: &EtcdRun) -> PortResult<()> {
        write_json(&self.paths.etcd_run(), run, 0o600)
    }

    fn reboot_locks(&self) -> PortResult<RebootLocks> {
        Ok(read_json(&self.paths.reboot_locks())?.unwrap_or_default())
    }

    fn save_reboot_locks(&self, locks: &RebootLocks) -> PortResult<()> {
        write_json(&self.paths.reboot_locks(), locks, 0o600)
    }

    fn assignment(&self) -> PortResult<Option<Assignment>> {
        read_json(&self.paths.assignment())
    }

    fn save_assignment(&self, assignment: &Assignment) -> PortResult<()> {
        write_json(&self.paths.assignment(), assignment, 0o600)
    }

    fn spec(&self) -> PortResult<SpecRecord> {
        Ok(read_json(&self.paths.spec())?.unwrap_or_default())
    }

    fn save_spec(&self, record: &SpecRecord) -> PortResult<()> {
        write_json(&self.paths.spec(), record, 0o600)
    }

    fn gate(&self) -> PortResult<Option<GateState>> {
        read_json(&self.paths.gate())
    }

    fn save_gate(&self, gate: &GateState) -> PortResult<()> {
        write_json(&self.paths.gate(), gate, 0o644)
    }

    fn clear_gate(&self, generation: Generation) -> PortResult<()> {
        write_json(&self.paths.gate_cleared(), &Cleared { generation }, 0o644)
    }

    fn close_gate(&self) -> PortResult<()> {
        // No assignment has this generation.
        self.clear_gate(Generation::default())
    }

    fn cleared_gate(&self) -> PortResult<Option<Generation>> {
        Ok(read_json::<Cleared>(&self.paths.gate_cleared())?.map(|c| c.generation))
    }
}

/// The content of `/run/etcd-agent/gate-cleared`.
#[derive(Debug, Serialize, serde::Deserialize)]
struct Cleared {
    generation: Generation,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{DirectiveChange, NodeName, UnixMs};

    #[test]
    fn what_was_ordered_is_remembered_and_never_guessed() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir_all(paths.state()).unwrap();
        let state = DiskState::new(paths.clone());
        assert_eq!(state.directives().unwrap(), Directives::default());
        let node = NodeName::new("n1").unwrap();
        let paused = Directives::default().after(&DirectiveChange::Pause, &node, UnixMs(1));
        state.save_directives(paused.as_ref().unwrap()).unwrap();
        assert_eq!(Some(state.directives().unwrap()), paused);
        fs::write(paths.directives(), "half a fi").unwrap();
        assert!(state.directives().is_err());
    }

    /// The agent could not start again on a file that it cannot read.
    #[test]
    fn what_could_not_be_read_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.json");
        write_json(&path, &"small", 0o600).unwrap();
        let refused = write_json(&path, &"x".repeat(LIMIT_BYTES), 0o600);
        assert!(matches!(refused, Err(PortError::Permanent(why)) if why.contains("expected at most")));
        assert_eq!(read_json::<String>(&path).unwrap().as_deref(), Some("small"));
        let largest = "x".repeat(LIMIT_BYTES - 3);
        write_json(&path, &largest, 0o600).unwrap();
        assert_eq!(read_json::<String>(&path).unwrap(), Some(largest));
    }
}
