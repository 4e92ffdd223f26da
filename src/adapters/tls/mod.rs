//! Mutual TLS from certificate files: the rustls configurations of both ends, read again when the files
//! change.
//!
//! There is no fallback to anything weaker: if the files cannot be used, there is no connection.

mod check;
mod error;
mod etcd_certificates;
mod explain;
mod files;
mod names;
mod verifier;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ServerConfig};
use tracing::{info, warn};

use crate::model::{TlsFiles, UnixMs};
use crate::ports::Certificates;

pub use check::{Fits, unusable};
pub use error::TlsError;
pub use etcd_certificates::EtcdCertificates;
pub use explain::explain;
pub(crate) use explain::{find, one_line};
pub use names::CertificateNames;

pub use files::stamp;
use files::{Material, Stamps};

/// The shortest interval between two checks of the files.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// A bad set is read again after this many checks. The cause may leave no mark on the files, such as too many open
/// files.
const READ_AGAIN_AFTER: u32 = 15;

/// One end's certificate, key and trusted authorities, kept up to date with their files.
pub struct Tls {
    files: TlsFiles,
    check_every: Duration,
    state: Mutex<State>,
}

struct State {
    material: Arc<Material>,
    generation: u64,
    in_use: Stamps,
    bad: Option<Bad>,
    checked: Instant,
}

/// A set that could not be loaded.
struct Bad {
    stamps: Stamps,
    error: TlsError,
    /// Files are often replaced one after the other, so a set that does not match counts as bad only if two
    /// checks find it so.
    found_twice: bool,
    read: Instant,
}

impl Certificates for Tls {
    fn not_after(&self) -> Option<UnixMs> {
        Some(self.current().0.not_after)
    }

    fn trouble(&self) -> Option<String> {
        let (in_use, _) = self.current();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bad) = state.bad.as_ref().filter(|bad| bad.found_twice) {
            return Some(format!(
                "{}; the agent works with the former files, and does not start again with these",
                bad.error
            ));
        }
        in_use.has_expired().then(|| {
            format!(
                "the certificate in {}, or the authority that has issued it, has expired, so other agents refuse it",
                self.files.cert_file.display()
            )
        })
    }
}

impl Tls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`TlsError`] naming the file that cannot be used and why.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        Self::load_checking_every(files, CHECK_EVERY)
    }

    pub(crate) fn load_checking_every(files: TlsFiles, check_every: Duration) -> Result<Arc<Self>, TlsError> {
        let stamps = Stamps::of(&files);
        let material = Arc::new(Material::read(&files)?);
        Ok(Arc::new(Self {
            files,
            check_every,
            state: Mutex::new(State {
                material,
                generation: 1,
                in_use: stamps,
                bad: None,
                checked: Instant::now(),
            }),
        }))
    }

    /// The files that the certificates are read from.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The server's configuration for a new connection, and its generation.
    pub fn server(&self) -> (Arc<ServerConfig>, u64) {
        let (material, generation) = self.current();
        (material.server.clone(), generation)
    }

    /// The client's configuration for a new connection, and its generation. The server's certificate must
    /// name the address that the client connects to or, if given, `node`.
    pub fn client(&self, node: Option<&str>, alpn: &[&[u8]]) -> (Arc<ClientConfig>, u64) {
        let (material, generation) = self.current();
        (Arc::new(material.client(node, alpn)), generation)
    }

    /// Like [`Self::client`], for the agent of `node`: its certificate must name the address or the node in
    /// full, without a wildcard.
    pub fn client_of_agent(&self, node: &str, alpn: &[&[u8]]) -> (Arc<ClientConfig>, u64) {
        let (material, generation) = self.current();
        (Arc::new(material.client_of_agent(node, alpn)), generation)
    }

    /// A number that increases each time the changed files are read.
    pub fn generation(&self) -> u64 {
        self.current().1
    }

    /// The material in use. Checks the files first if that is due.
    fn current(&self) -> (Arc<Material>, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked.elapsed() >= self.check_every {
            state.checked = Instant::now();
            let found = Stamps::of(&self.files);
            if found == state.in_use {
                state.bad = None;
            } else {
                self.reload(&mut state, found);
            }
        }
        (state.material.clone(), state.generation)
    }

    fn reload(&self, state: &mut State, found: Stamps) {
        let (seen_before, warned) = match state.bad.as_ref().filter(|bad| bad.stamps == found) {
            None => (false, false),
            Some(bad) if !bad.found_twice => (true, false),
            Some(bad) if bad.read.elapsed() < self.check_every * READ_AGAIN_AFTER => return,
            Some(_) => (true, true),
        };
        match Material::read(&self.files) {
            Ok(material) => {
                state.material = Arc::new(material);
                state.generation += 1;
                state.in_use = found;
                state.bad = None;
                info!("read the changed certificate {}", self.files.cert_file.display());
            }
            Err(error) => {
                if seen_before && !warned {
                    warn!("keeping the certificate that is in use: {error}");
                }
                state.bad = Some(Bad {
                    stamps: found,
                    error,
                    found_twice: seen_before,
                    read: Instant::now(),
                });
            }
        }
    }
}
