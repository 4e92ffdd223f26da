//! The listening sockets, which outlive their servers. While a reload replaces a server, new connections wait
//! in the socket's queue and the next server answers them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::{HttpError, unix};
use crate::paths::Paths;

/// How many connections may wait in the queue of a socket. The kernel's limit is `net.core.somaxconn`.
const BACKLOG: u32 = 1024;

/// Listens at this address. `[::]` means all addresses of the host: those of IPv4 too, whatever `net.ipv6.bindv6only`
/// says (ipv6(7)), and only IPv4 if the kernel has no IPv6.
fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let all = listen.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let bound = bind_to(listen, all);
    match bound {
        Err(error) if all && is_no_ipv6(&error) => {
            bind_to((Ipv4Addr::UNSPECIFIED, listen.port()).into(), false)
        }
        bound => bound,
    }
}

fn bind_to(listen: SocketAddr, all: bool) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv6() {
        TcpSocket::new_v6()?
    } else {
        TcpSocket::new_v4()?
    };
    if all {
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

fn is_no_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::AFNOSUPPORT) || errno == Some(Errno::ADDRNOTAVAIL)
}

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
    pub fn tcp(&self, listen: SocketAddr, what: &str) -> Result<Arc<TcpListener>, HttpError> {
        if let Some(bound) = locked(&self.tcp).get(&listen) {
            return Ok(bound.clone());
        }
        let bound = bind(listen)
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
