//! How long each step of a verification may take. A verification uses only idle time of the host, so it takes
//! long with a large database, but it must end.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The least time for a step, however small the snapshot is: on a host with a busy etcd it has to wait.
const LEAST: Duration = Duration::from_mins(2);
/// The slowest rate that counts as progress, on a shared disk.
const RESTORE_PER_MIB: Duration = Duration::from_secs(1);
/// etcd reads its whole key index before it serves.
const SERVE_PER_MIB: Duration = Duration::from_millis(500);
/// A hash reads the whole database.
const ASK_PER_MIB: Duration = Duration::from_millis(500);
/// Nobody waits for longer than this, whatever the size.
const MOST: Duration = Duration::from_hours(3);

/// The deadline of each step for a snapshot of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// From the start of the restore tool to its end.
    pub(super) restore: Duration,
    /// From the start of etcd until it serves.
    pub(super) serve: Duration,
    /// Counting and hashing the keys.
    pub(super) ask: Duration,
}

impl Limits {
    pub(super) fn of(bytes: u64) -> Self {
        let mib = u32::try_from(bytes / MIB).unwrap_or(u32::MAX);
        let step = |each: Duration| LEAST.saturating_add(each.saturating_mul(mib)).min(MOST);
        Self {
            restore: step(RESTORE_PER_MIB),
            serve: step(SERVE_PER_MIB),
            ask: step(ASK_PER_MIB),
        }
    }
}

/// How long all steps together may take, plus a minute for the unit itself. A caller waits this long.
pub fn within(bytes: u64) -> Duration {
    let limits = Limits::of(bytes);
    limits.restore + limits.serve + limits.ask + Duration::from_mins(1)
}

/// Whether the loopback interface is up. The unit has one of its own, which systemd brings up. If systemd
/// cannot, it starts the unit anyway, and no request over that interface is ever answered.
pub(super) fn loopback() -> Result<(), String> {
    let tried = || -> io::Result<TcpStream> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(2))
    };
    tried().map(drop).map_err(|error| {
        format!(
            "the loopback interface of etcd-agent-verify.service cannot be used ({error}): systemd could not bring it up \
             (journalctl -u etcd-agent-verify); where the kernel or a container does not allow that, a drop-in with \
             [Service] PrivateNetwork=no lets the throw-away etcd use the host's"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h07_each_step_has_an_end_that_grows_with_the_size() {
        let (small, large) = (Limits::of(4096), Limits::of(8 << 30));
        assert_eq!(small.restore, LEAST);
        assert!(small.restore < large.restore && small.serve < large.serve && small.ask < large.ask);
        assert_eq!(Limits::of(u64::MAX).restore, MOST);
        // A caller does not give up before the step that reports the reason.
        let steps = large.restore + large.serve + large.ask;
        assert!(within(8 << 30) > steps);
        assert_eq!(loopback(), Ok(()));
    }
}
