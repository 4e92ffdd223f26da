//! The certificates that etcd uses, as far as the agent's user can read them: when they expire, and which authorities
//! etcd trusts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::files::{Stamps, authorities, expiry};
use crate::model::{TlsFiles, UnixMs, digest};
use crate::ports::{self, Certificates};

/// The shortest interval between two checks of the files.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// What some files hold. They are read again when they change.
pub struct EtcdCertificates {
    files: Vec<TlsFiles>,
    state: Mutex<State>,
}

struct State {
    checked: Instant,
    seen: Vec<Stamps>,
    not_after: Option<UnixMs>,
    authorities: Option<String>,
}

impl State {
    fn read(files: &[TlsFiles]) -> Self {
        Self {
            checked: Instant::now(),
            // Before the content: what changes in between is read again.
            seen: files.iter().map(Stamps::of).collect(),
            not_after: earliest(files),
            authorities: all_authorities(files),
        }
    }
}

impl Certificates for EtcdCertificates {
    fn not_after(&self) -> Option<UnixMs> {
        self.not_after_checking_every(CHECK_EVERY)
    }
}

impl ports::EtcdCertificates for EtcdCertificates {
    fn authorities(&self) -> Option<String> {
        self.authorities_checking_every(CHECK_EVERY)
    }
}

impl EtcdCertificates {
    /// Reads the files for the first time. It reads only certificates and authorities, no keys.
    pub fn of(files: Vec<TlsFiles>) -> Self {
        let state = Mutex::new(State::read(&files));
        Self { files, state }
    }

    pub(super) fn not_after_checking_every(&self, check_every: Duration) -> Option<UnixMs> {
        self.read(check_every, |state| state.not_after)
    }

    pub(super) fn authorities_checking_every(&self, check_every: Duration) -> Option<String> {
        self.read(check_every, |state| state.authorities.clone())
    }

    fn read<T>(&self, check_every: Duration, ask: impl FnOnce(&State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked.elapsed() >= check_every {
            state.checked = Instant::now();
            let found: Vec<_> = self.files.iter().map(Stamps::of).collect();
            if found != state.seen {
                *state = State::read(&self.files);
            }
        }
        ask(&state)
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

fn all_authorities(files: &[TlsFiles]) -> Option<String> {
    let mut all = Vec::new();
    for set in files {
        let found = authorities(set).inspect_err(|error| {
            warn!("etcd is not restarted because of new authorities: {error}");
        });
        for authority in found.ok()? {
            all.extend_from_slice(&authority);
        }
        // One authority moved from one set to the other is a change.
        all.push(0);
    }
    (!all.is_empty()).then(|| digest(&all))
}
