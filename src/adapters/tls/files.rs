//! Reads PEM files into rustls configurations.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};

use super::error::TlsError;
use super::names::not_after;
use super::verifier::{NamedVerifier, Own};
use crate::model::{TlsFiles, UnixMs, digest};

/// Identifies the content of each file without reading it: a rename changes the inode, a write changes the
/// time. So do chmod and chown, after which a file may be readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamps([Option<(u64, u64, i64, i64)>; 3]);

impl Stamps {
    pub(super) fn of(files: &TlsFiles) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self([&files.cert_file, &files.key_file, &files.ca_file].map(|path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
        }))
    }
}

/// Distinguishes the content of these files from what replaces it, without reading it.
pub fn stamp(sets: &[TlsFiles]) -> String {
    let stamps: Vec<_> = sets.iter().map(Stamps::of).collect();
    digest(format!("{sets:?} {stamps:?}").as_bytes())
}

/// The content of one consistent set of files.
pub(super) struct Material {
    pub(super) server: Arc<ServerConfig>,
    pub(super) not_after: UnixMs,
    verifier: Arc<rustls::client::WebPkiServerVerifier>,
    client: ClientConfig,
}

impl Material {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, authorities, not_after) = chain(files)?;
        let key = PrivateKeyDer::from_pem_file(&files.key_file)
            .map_err(|error| cannot(&files.key_file, "private key", &pem_text(&error)))?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots
                .add(authority.clone())
                .map_err(|error| cannot(&files.ca_file, "authority", &error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| {
            cannot(
                &files.key_file,
                "private key",
                &format!("it does not fit {}: {error}", files.cert_file.display()),
            )
        })?;
        let own = Arc::new(Own(Arc::new(key)));
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| cannot(&files.ca_file, "authority", &error.to_string()))?;
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| cannot(&files.ca_file, "authority", &error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(own.clone());
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        // No resumption: a resumed session is not verified again, and would outlive a certificate or an
        // authority.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?
            .with_webpki_verifier(verifier.clone())
            .with_client_cert_resolver(own);
        client.resumption = Resumption::disabled();
        Ok(Self {
            server: Arc::new(server),
            not_after,
            verifier,
            client,
        })
    }

    /// True if its first certificate to expire has expired.
    pub(super) fn has_expired(&self) -> bool {
        self.not_after.0 / 1000 < UnixTime::now().as_secs()
    }

    pub(super) fn client(&self, node: Option<&str>, alpn: &[&[u8]]) -> ClientConfig {
        self.client_with(NamedVerifier::new(self.verifier.clone(), node), alpn)
    }

    pub(super) fn client_of_agent(&self, node: &str, alpn: &[&[u8]]) -> ClientConfig {
        self.client_with(NamedVerifier::of_agent(self.verifier.clone(), node), alpn)
    }

    fn client_with(&self, verifier: NamedVerifier, alpn: &[&[u8]]) -> ClientConfig {
        let mut config = self.client.clone();
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}

/// The earliest expiry of a set's certificates, including its authority's.
pub(super) fn expiry(files: &TlsFiles) -> Result<UnixMs, TlsError> {
    chain(files).map(|(_, _, not_after)| not_after)
}

/// The authorities of a set, in the order of their encoding. Fails if they have not issued its certificate.
pub(super) fn authorities(files: &TlsFiles) -> Result<Vec<Vec<u8>>, TlsError> {
    let (chain, authorities, _) = chain(files)?;
    match verify_own(files, &chain, &authorities)? {
        Ok(()) => {
            let mut all: Vec<_> = authorities.iter().map(|one| one.as_ref().to_vec()).collect();
            all.sort_unstable();
            Ok(all)
        }
        Err(error) => {
            let why = format!("it does not verify {}: {error}", files.cert_file.display());
            Err(cannot(&files.ca_file, "authority", &why))
        }
    }
}

/// Verifies a set's own certificate with its authorities, whatever it names. The outer error says that an authority
/// cannot be used.
pub(super) fn verify_own(
    files: &TlsFiles,
    chain: &Certificates,
    authorities: &Certificates,
) -> Result<Result<(), Error>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority.clone())
            .map_err(|error| cannot(&files.ca_file, "authority", &error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| cannot(&files.ca_file, "authority", &error.to_string()))?;
    // The chain is verified before the name, and any name will do.
    let (own, name) = (&chain[0], ServerName::from(IpAddr::from([127, 0, 0, 1])));
    Ok(
        match verifier.verify_server_cert(own, &chain[1..], &name, &[], UnixTime::now()) {
            Ok(_)
            | Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(()),
            Err(error) => Err(error),
        },
    )
}

pub(super) type Certificates = Vec<CertificateDer<'static>>;

/// The chain and the authorities of a set, and the earliest expiry of the chain (see [`not_after`]).
fn chain(files: &TlsFiles) -> Result<(Certificates, Certificates, UnixMs), TlsError> {
    let chain = certificates(&files.cert_file)?;
    let authorities = certificates(&files.ca_file)?;
    let not_after = not_after(&chain, &authorities)
        .ok_or_else(|| cannot(&files.cert_file, "certificate", "it is not X.509"))?;
    Ok((chain, authorities, not_after))
}

pub(super) fn certificates(path: &Path) -> Result<Certificates, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| cannot(path, "certificate", &pem_text(&error)))?;
    if found.is_empty() {
        return Err(cannot(path, "certificate", "there is no PEM certificate in it"));
    }
    Ok(found)
}

pub(super) fn pem_text(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "there is no such PEM section in it".to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn cannot(path: &Path, what: &str, why: &str) -> TlsError {
    TlsError(format!("cannot use the {what} in {}: {why}", path.display()))
}
