//! What a certificate that TLS has verified names, and until when it holds.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::model::UnixMs;

/// The names of a peer's certificate. Only subject alternative names count, as in RFC 9525; never the subject's
/// common name, and no wildcards: a node is a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateNames {
    dns: Vec<String>,
    ips: Vec<IpAddr>,
    /// When it expires.
    pub not_after: UnixMs,
}

impl CertificateNames {
    /// Reads them from an end-entity certificate; `None` when it is no X.509.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let mut names = Self {
            dns: Vec::new(),
            ips: Vec::new(),
            not_after: expiry(&parsed),
        };
        if let Ok(Some(extension)) = parsed.subject_alternative_name() {
            for name in &extension.value.general_names {
                match name {
                    GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
                    GeneralName::IPAddress(bytes) => names.ips.extend(ip(bytes)),
                    _ => {}
                }
            }
        }
        Some(names)
    }

    /// True when the certificate names this host: a DNS name or an IP address.
    pub fn covers(&self, host: &str) -> bool {
        match host.parse::<IpAddr>() {
            Ok(address) => self.ips.contains(&address),
            Err(_) => self.dns.iter().any(|name| name.eq_ignore_ascii_case(host)),
        }
    }

    /// All names, for messages.
    pub fn text(&self) -> String {
        let mut all: Vec<String> = self.dns.clone();
        all.extend(self.ips.iter().map(ToString::to_string));
        if all.is_empty() {
            "no host at all".to_owned()
        } else {
            all.join(", ")
        }
    }
}

/// When a certificate expires.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<UnixMs> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(expiry(&parsed))
}

fn expiry(certificate: &X509Certificate<'_>) -> UnixMs {
    let seconds = certificate.validity().not_after.timestamp();
    UnixMs(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
