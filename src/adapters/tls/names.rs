//! The names and the expiry of a certificate that TLS has verified.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use crate::model::UnixMs;

/// The names of a peer's certificate. Only subject alternative names count, as in RFC 9525. The subject's
/// common name never counts, and neither do wildcards, because each name must identify one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateNames {
    dns: Vec<String>,
    ips: Vec<IpAddr>,
    /// When the certificate expires.
    pub not_after: UnixMs,
}

impl CertificateNames {
    /// Reads the names from an end-entity certificate; `None` if it is not X.509.
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

    /// True if the certificate names this host, which is a DNS name or an IP address.
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

/// The earliest expiry of a chain's certificates and of the trusted authority that signed it. Go's verifier,
/// and so etcd's, also checks the authority's dates. `None` if a certificate of the chain is not X.509.
pub(super) fn not_after(chain: &[CertificateDer<'_>], authorities: &[CertificateDer<'_>]) -> Option<UnixMs> {
    let parse = |all: &'_ [CertificateDer<'_>]| -> Option<Vec<UnixMs>> {
        all.iter()
            .map(|one| {
                X509Certificate::from_der(one)
                    .ok()
                    .map(|(_, parsed)| expiry(&parsed))
            })
            .collect()
    };
    let own = parse(chain)?.into_iter().min()?;
    let (_, last) = X509Certificate::from_der(chain.last()?).ok()?;
    // If an authority was renewed, both certificates are trusted, and the one that expires later counts.
    let signed_by = authorities
        .iter()
        .filter_map(|one| X509Certificate::from_der(one).ok().map(|(_, parsed)| parsed))
        .filter(|authority| signs(authority, &last))
        .map(|authority| expiry(&authority))
        .max();
    Some(signed_by.map_or(own, |authority| own.min(authority)))
}

/// Whether a certificate names this authority as its issuer.
fn signs(authority: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
    if authority.subject().as_raw() != certificate.issuer().as_raw() {
        return false;
    }
    let theirs = authority
        .extensions()
        .iter()
        .find_map(|one| match one.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        });
    let named = certificate
        .extensions()
        .iter()
        .find_map(|one| match one.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
            _ => None,
        });
    // The key identifiers decide, because an authority may keep its name when it gets a new key.
    match (theirs, named) {
        (Some(theirs), Some(named)) => theirs == named,
        _ => true,
    }
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
