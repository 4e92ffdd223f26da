//! Listens on a Unix socket. An earlier run of the agent may have left a stale one.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tokio::net::UnixListener;

use super::HttpError;

/// Listens at `path` with this mode. The function creates the socket next to `path` and renames it into
/// place. The socket thus never has another mode, and a client finds either the old socket or the new one.
pub(super) fn bind(path: &Path, mode: u32) -> Result<UnixListener, HttpError> {
    let cannot = |why: String| HttpError(format!("cannot listen on {}: {why}", path.display()));
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(cannot(
                "the path exists and is not a socket: remove it".to_owned(),
            ));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(cannot(
                "another etcd-agent is running and answers on it".to_owned(),
            ));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(error.to_string())),
    }
    let fresh = path.with_extension("sock.new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error.to_string())),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh).map_err(|error| cannot(error.to_string()))?;
    fs::set_permissions(&fresh, Permissions::from_mode(mode)).map_err(|error| cannot(error.to_string()))?;
    fs::rename(&fresh, path).map_err(|error| cannot(error.to_string()))?;
    Ok(listener)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let first = bind(&path, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let error = bind(&path, 0o660).unwrap_err().to_string();
        assert!(error.contains("another etcd-agent"), "{error}");
        drop(first);
        assert!(path.exists(), "a killed agent leaves its socket behind");
        drop(bind(&path, 0o666).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        assert!(
            bind(&path, 0o660)
                .unwrap_err()
                .to_string()
                .contains("not a socket")
        );
    }
}
