//! The listening sockets, which outlive their servers. While a reload replaces a server, new connections wait
//! in the socket's queue and the next server answers them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, UnixListener};

use super::{HttpError, unix};
use crate::paths::Paths;

/// All sockets of one agent process.
pub struct Sockets {
    paths: Paths,
    admin: Arc<UnixListener>,
    gate: Mutex<Option<Arc<UnixListener>>>,
    tcp: Mutex<BTreeMap<SocketAddr, Arc<TcpListener>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sockets {
    /// Listens on the admin socket: mode 0660 with the daemon's own group.
    ///
    /// # Errors
    /// [`HttpError`] if the path is not a stale socket: it is another kind of file, or another agent answers
    /// on it.
    pub fn bind(paths: &Paths) -> Result<Self, HttpError> {
        Ok(Self {
            paths: paths.clone(),
            admin: Arc::new(unix::bind(&paths.admin_socket(), 0o660)?),
            gate: Mutex::default(),
            tcp: Mutex::default(),
        })
    }

    /// The admin socket.
    pub fn admin(&self) -> Arc<UnixListener> {
        self.admin.clone()
    }

    /// The gate's socket, mode 0666. The first call binds it.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn gate(&self) -> Result<Arc<UnixListener>, HttpError> {
        let mut gate = locked(&self.gate);
        if let Some(gate) = &*gate {
            return Ok(gate.clone());
        }
        let bound = Arc::new(unix::bind(&self.paths.gate_socket(), 0o666)?);
        *gate = Some(bound.clone());
        Ok(bound)
    }

    /// The socket at this address. The first call binds it. `what` names the setting.
    ///
    /// # Errors
    /// [`HttpError`] with the address. A retry makes sense, because an address may come up later than the
    /// agent.
    pub async fn tcp(&self, listen: SocketAddr, what: &str) -> Result<Arc<TcpListener>, HttpError> {
        if let Some(bound) = locked(&self.tcp).get(&listen) {
            return Ok(bound.clone());
        }
        let bound = TcpListener::bind(listen)
            .await
            .map_err(|error| HttpError(format!("cannot listen on {listen} ({what}): {error}")))?;
        let bound = Arc::new(bound);
        locked(&self.tcp).insert(listen, bound.clone());
        Ok(bound)
    }

    /// Closes the sockets that a new configuration does not use: all TCP sockets but those at these
    /// addresses, and the gate's socket if `gate` is false (without a configuration).
    pub fn keep(&self, tcp: &[SocketAddr], gate: bool) {
        locked(&self.tcp).retain(|listen, _| tcp.contains(listen));
        if !gate {
            locked(&self.gate).take();
        }
    }
}
