//! The expiry of certificates that another program uses: etcd's own, as far as the agent's user can read
//! them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::files::{Stamps, expiry};
use crate::model::{TlsFiles, UnixMs};

/// The shortest interval between two checks of the files.
const CHECK_EVERY: Duration = Duration::from_mins(1);

/// The expiry of some certificates, read again when their files change.
pub struct Expiry {
    files: Vec<TlsFiles>,
    state: Mutex<State>,
}

struct State {
    checked: Instant,
    seen: Vec<Stamps>,
    not_after: Option<UnixMs>,
}

impl Expiry {
    /// Reads the files for the first time. It reads only certificates and authorities, no keys.
    pub fn of(files: Vec<TlsFiles>) -> Self {
        let state = Mutex::new(State {
            checked: Instant::now(),
            seen: files.iter().map(Stamps::of).collect(),
            not_after: earliest(&files),
        });
        Self { files, state }
    }

    /// The earliest expiry of these certificates, their chains and their authorities, in milliseconds since
    /// 1970. `None` if none of them can be read.
    pub fn not_after(&self) -> Option<UnixMs> {
        self.not_after_checking_every(CHECK_EVERY)
    }

    pub(super) fn not_after_checking_every(&self, check_every: Duration) -> Option<UnixMs> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked.elapsed() >= check_every {
            state.checked = Instant::now();
            let found: Vec<_> = self.files.iter().map(Stamps::of).collect();
            if found != state.seen {
                state.seen = found;
                state.not_after = earliest(&self.files);
            }
        }
        state.not_after
    }
}

fn earliest(files: &[TlsFiles]) -> Option<UnixMs> {
    let read = files.iter().map(expiry);
    read.filter_map(|found| {
        found
            .inspect_err(|error| warn!("the expiry of one of etcd's certificates is unknown: {error}"))
            .ok()
    })
    .min()
}
