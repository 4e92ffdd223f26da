//! Verifies a server's certificate, and presents this end's own certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::names::CertificateNames;

/// The certificate that this end presents, as client and as server.
#[derive(Debug)]
pub(super) struct Own(pub(super) Arc<CertifiedKey>);

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
    fn has_certs(&self) -> bool {
        true
    }
}

/// Wraps rustls' own verifier. If the certificate does not name the address, it asks that verifier again with
/// the node's name, because operators issue certificates for either. It accepts nothing that rustls refuses.
#[derive(Debug)]
pub(super) struct NamedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    node: Option<ServerName<'static>>,
    /// Whether a wildcard is accepted.
    wildcards: bool,
}

impl NamedVerifier {
    pub(super) fn new(inner: Arc<WebPkiServerVerifier>, node: Option<&str>) -> Self {
        let node = node.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        Self {
            inner,
            node,
            wildcards: true,
        }
    }

    /// A verifier for another agent. It applies the check that a server applies to its clients:
    /// [`CertificateNames::covers`], which accepts no wildcards.
    pub(super) fn of_agent(inner: Arc<WebPkiServerVerifier>, node: &str) -> Self {
        Self {
            wildcards: false,
            ..Self::new(inner, Some(node))
        }
    }

    fn spelled_out(&self, certificate: &CertificateDer<'_>, address: &ServerName<'_>) -> bool {
        let Some(names) = CertificateNames::of(certificate) else {
            return false;
        };
        std::iter::once(address)
            .chain(&self.node)
            .any(|name| names.covers(&name.to_str()))
    }
}

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_address =
            self.inner
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verified = match (by_address, &self.node) {
            (
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )),
                Some(node),
            ) => self
                .inner
                .verify_server_cert(end_entity, intermediates, node, ocsp_response, now),
            (other, _) => other,
        }?;
        if self.wildcards || self.spelled_out(end_entity, server_name) {
            return Ok(verified);
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidForName))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
