//! A file that records that the agent itself requested the last stop. It names the stopped activation, so
//! that an old marker never hides a later stop by an operator.

use crate::paths::Paths;
use crate::ports::PortError;
use crate::unit::files;

/// The activation that the agent asked to stop in this boot.
pub(super) fn read(paths: &Paths) -> Option<u64> {
    let body = files::read_bounded(&paths.stopped_by_agent()).ok()??;
    std::str::from_utf8(&body).ok()?.trim().parse().ok()
}

/// Writes the marker. Call this before requesting the stop.
pub(super) fn write(paths: &Paths, activation: u64) -> Result<(), PortError> {
    let path = paths.stopped_by_agent();
    files::write_atomic(&path, format!("{activation}\n").as_bytes(), 0o644)
        .map_err(|error| PortError::Retryable(format!("writing {}: {error}", path.display())))
}

/// Removes the marker, when etcd is started again or the stop has failed.
pub(super) fn remove(paths: &Paths) {
    // A failure does no harm: the marker names an activation that has ended.
    let _ = files::remove_file(&paths.stopped_by_agent());
}
