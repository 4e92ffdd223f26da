//! Explains in one clear line why a connection failed.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Explains in one line why a connection failed. Names the certificate's problem if there is one.
pub fn explain(error: &(dyn StdError + 'static)) -> String {
    if let Some(tls) = find(error) {
        return tls_text(tls);
    }
    let mut last = error;
    while let Some(inner) = last.source() {
        last = inner;
    }
    if let Some(io) = last.downcast_ref::<io::Error>() {
        return io_text(io);
    }
    one_line(&last.to_string())
}

/// Finds the rustls error among the causes, if there is one. `io::Error` hides its inner error from `source`.
pub(crate) fn find<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(tls) = current.downcast_ref::<Error>() {
            return Some(tls);
        }
        if let Some(inner) = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            let inner: &(dyn StdError + 'static) = inner;
            return find(inner);
        }
        next = current.source();
    }
    None
}

fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: nothing listens there".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to the host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "the network is unreachable".to_owned(),
        io::ErrorKind::UnexpectedEof => "the other side closed the connection".to_owned(),
        _ => one_line(&error.to_string()),
    }
}

fn tls_text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => format!("its certificate {}", certificate_text(problem)),
        Error::NoCertificatesPresented => "it presented no certificate".to_owned(),
        Error::AlertReceived(alert) => alert_text(*alert),
        Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        other => format!("TLS: {}", one_line(&other.to_string())),
    }
}

fn certificate_text(problem: &CertificateError) -> String {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: compare the hosts' clocks".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "is not signed by an authority that is trusted here (ca_file)".to_owned()
        }
        CertificateError::BadSignature => {
            "has a bad signature: an authority other than the one in ca_file signed it".to_owned()
        }
        CertificateError::NotValidForName => "does not name this host".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "names {}, not {}",
            if presented.is_empty() {
                "no host at all".to_owned()
            } else {
                presented
                    .iter()
                    .map(|name| bare(name))
                    .collect::<Vec<_>>()
                    .join(", ")
            },
            expected.to_str()
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "lacks the extended key usage for this side: it needs both serverAuth and clientAuth".to_owned()
        }
        other => format!("is not valid: {}", one_line(&format!("{other:?}"))),
    }
}

/// The bare name: rustls formats names as `DnsName("n1")` and `IpAddress(10.0.0.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"')
}

fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => {
            "it refused our certificate: it does not trust its authority".to_owned()
        }
        AlertDescription::CertificateExpired => "it refused our certificate: it has expired".to_owned(),
        AlertDescription::CertificateRequired => "it requires a certificate, and we sent none".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => format!("it refused our certificate ({alert:?})"),
        other => format!("it ended the TLS handshake ({other:?})"),
    }
}

/// Escapes control characters, and cuts the text to a length that fits a log line. Text from the network must
/// not be able to add lines to the log.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(400));
    for c in text.chars().take(400) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
