//! How a server's certificate is judged, and how the own one is offered.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// The one certificate that is offered at both ends.
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

/// rustls' own verifier, asked a second time with the node's name where the certificate does not name the
/// address: operators issue certificates for either. Nothing else about the verification is changed.
#[derive(Debug)]
pub(super) struct NamedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    node: Option<ServerName<'static>>,
}

impl NamedVerifier {
    pub(super) fn new(inner: Arc<WebPkiServerVerifier>, node: Option<&str>) -> Self {
        let node = node.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        Self { inner, node }
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
        match (by_address, &self.node) {
            (
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )),
                Some(node),
            ) => self
                .inner
                .verify_server_cert(end_entity, intermediates, node, ocsp_response, now),
            (other, _) => other,
        }
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
