//! Two files about this boot. One records that the agent itself requested the last stop. It names the stopped
//! activation, so that an old marker never hides a later stop by an operator. The other one records that an
//! operator requested the last stop.

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

/// Whether an operator had stopped `etcd.service` when its state was last known.
pub(super) fn is_held(paths: &Paths) -> bool {
    // An unreadable directory counts as held: nothing is started then.
    paths.stopped_by_operator().try_exists().unwrap_or(true)
}

/// Records whether an operator has stopped `etcd.service`.
pub(super) fn note_held(paths: &Paths, held: bool) {
    let path = paths.stopped_by_operator();
    let noted = match (held, is_held(paths)) {
        (true, false) => files::write_atomic(&path, b"", 0o644),
        (false, true) => files::remove_file(&path),
        _ => Ok(()),
    };
    if let Err(error) = noted {
        tracing::warn!("{} cannot be changed: {error}", path.display());
    }
}
