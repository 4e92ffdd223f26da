//! Restores a snapshot into a directory that an operator named. Needs no agent and no cluster, and replaces
//! nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::tool;
use crate::model::{ClusterId, MemberId};
use crate::unit::wal;

/// An operator waits for it, and can cancel it.
const RESTORE_WITHIN: Duration = Duration::from_hours(2);

/// Restores a snapshot into `dir`, which must not exist yet, by `etcdutl` or `etcdctl` (next to `etcd`, when
/// that is pinned, else where packages put them). `more` is passed to the tool. Returns the cluster and the
/// member of the data.
///
/// # Errors
/// There is no tool, or the error that it printed.
pub fn build(
    etcd: Option<&Path>,
    snapshot: &Path,
    dir: &Path,
    more: &[String],
) -> Result<(ClusterId, MemberId), String> {
    let tool = tool::Programs::of_anybody(etcd).restore_tool()?;
    let mut args = vec![
        "snapshot".to_owned(),
        "restore".to_owned(),
        snapshot.display().to_string(),
    ];
    args.extend_from_slice(more);
    // Last, so that it overrides what `more` contains.
    args.push(format!("--data-dir={}", dir.display()));
    tool::run(&tool, &args, RESTORE_WITHIN)?;
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    rustix::fs::syncfs(fs::File::open(dir).map_err(failed)?).map_err(|error| failed(error.into()))?;
    wal::identify(&dir.join("member/wal")).map_err(|error| error.to_string())
}
