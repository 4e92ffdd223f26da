//! The marker that the agent itself asked for the last stop. It names the activation that was stopped, so that an
//! old one never hides what an operator does later.

use crate::paths::Paths;
use crate::ports::PortError;
use crate::unit::files;

/// The activation that the agent asked to stop in this boot.
pub(super) fn read(paths: &Paths) -> Option<u64> {
    let body = files::read_bounded(&paths.stopped_by_agent()).ok()??;
    std::str::from_utf8(&body).ok()?.trim().parse().ok()
}

/// Before asking.
pub(super) fn write(paths: &Paths, activation: u64) -> Result<(), PortError> {
    let path = paths.stopped_by_agent();
    files::write_atomic(&path, format!("{activation}\n").as_bytes(), 0o644)
        .map_err(|error| PortError::Retryable(format!("writing {}: {error}", path.display())))
}

/// When it is started again.
pub(super) fn remove(paths: &Paths) {
    // One that stays behind names an activation that is over.
    let _ = files::remove_file(&paths.stopped_by_agent());
}
