//! Whether etcd can work with a set of files. It finds only what keeps an etcd from starting, or cuts it off from
//! others, whatever version it has: what is unknown here, as the kind of a key, may well work there.

use std::io;
use std::path::Path;

use rustls::client::verify_server_name;
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::error::TlsError;
use super::files::{Certificates, cannot, certificates, pem_text, verify_own};
use super::names::{CertificateNames, not_after};
use crate::model::TlsFiles;

/// What a set of files has to fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fits {
    /// The hosts of which the certificate must name one. Empty if any name will do.
    pub hosts: Vec<String>,
    /// True if the certificate is also presented to servers.
    pub as_client: bool,
}

/// Why etcd cannot work with these files now, in one line with the name of the file; `None` if nothing is found.
/// The files are read as the user of this process.
pub fn unusable(files: &TlsFiles, fits: &Fits) -> Option<String> {
    check(files, fits, UnixTime::now())
        .err()
        .map(|error| error.to_string())
}

fn check(files: &TlsFiles, fits: &Fits, now: UnixTime) -> Result<(), TlsError> {
    for (path, what) in [
        (&files.cert_file, "certificate"),
        (&files.key_file, "private key"),
        (&files.ca_file, "authority"),
    ] {
        std::fs::File::open(path).map_err(|error| unreadable(path, what, &error))?;
    }
    let chain = certificates(&files.cert_file)?;
    let authorities = certificates(&files.ca_file)?;
    let refuse = |why: &str| Err(cannot(&files.cert_file, "certificate", why));
    let Ok((_, own)) = X509Certificate::from_der(&chain[0]) else {
        return refuse("it is not X.509");
    };
    key_fits(files, &chain, &own)?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if own.validity().not_before.timestamp() > seconds {
        return refuse("it is not valid yet: compare this host's clock");
    }
    let ends = not_after(&chain, &authorities).map_or(u64::MAX, |end| end.0 / 1000);
    if ends < now.as_secs() {
        return refuse("it, or the authority that has issued it, has expired: install a new one");
    }
    if let Some(missing) = lacks_usage(&own, fits.as_client) {
        return refuse(&format!(
            "its extended key usage lacks {missing}: issue it with serverAuth and clientAuth"
        ));
    }
    named(files, &chain, fits)?;
    issued(files, &chain, &authorities)
}

fn unreadable(path: &Path, what: &str, error: &io::Error) -> TlsError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it is not there".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "etcd's user may not read it: give it to the group of that user with mode 0640".to_owned()
        }
        _ => error.to_string(),
    };
    cannot(path, what, &why)
}

/// Checks that the key can be read and is that of the certificate.
fn key_fits(files: &TlsFiles, chain: &Certificates, own: &X509Certificate<'_>) -> Result<(), TlsError> {
    let refuse = |why: &str| Err(cannot(&files.key_file, "private key", why));
    let key = match PrivateKeyDer::from_pem_file(&files.key_file) {
        Ok(key) => key,
        Err(error) => return refuse(&pem_text(&error)),
    };
    let provider = rustls::crypto::ring::default_provider();
    let other = format!("it is not the key of {}", files.cert_file.display());
    match CertifiedKey::from_der(chain.clone(), key, &provider) {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => refuse(&other),
        // A key of a kind that is known would have been read.
        Err(_) if is_known(own) => refuse(&other),
        _ => Ok(()),
    }
}

/// True if keys like that of this certificate are understood here: RSA of 2048 to 4096 bits, P-256, P-384 and Ed25519.
fn is_known(own: &X509Certificate<'_>) -> bool {
    const ED25519: &str = "1.3.101.112";
    let key = own.public_key();
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => (2048..=4096).contains(&rsa.key_size()),
        Ok(PublicKey::EC(point)) => matches!(point.key_size(), 256 | 384),
        _ => key.algorithm.algorithm.to_id_string() == ED25519,
    }
}

/// The extended key usage that is missing, if there are any.
fn lacks_usage(own: &X509Certificate<'_>, as_client: bool) -> Option<&'static str> {
    let usage = own.extended_key_usage().ok()??.value;
    if usage.any {
        return None;
    }
    match (usage.server_auth, usage.client_auth) {
        (false, _) => Some("serverAuth"),
        (true, false) if as_client => Some("clientAuth"),
        _ => None,
    }
}

/// Checks the names as those do who connect to etcd.
fn named(files: &TlsFiles, chain: &Certificates, fits: &Fits) -> Result<(), TlsError> {
    let names: Vec<ServerName<'_>> = fits
        .hosts
        .iter()
        .filter_map(|host| ServerName::try_from(host.as_str()).ok())
        .collect();
    let Ok(parsed) = ParsedCertificate::try_from(&chain[0]) else {
        return Ok(());
    };
    let is_other = |name: &ServerName<'_>| {
        matches!(
            verify_server_name(&parsed, name),
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        )
    };
    if names.is_empty() || !names.iter().all(is_other) {
        return Ok(());
    }
    let has = CertificateNames::of(&chain[0]).map_or_else(|| "others".to_owned(), |names| names.text());
    Err(cannot(
        &files.cert_file,
        "certificate",
        &format!(
            "it names {has}, and others connect to {}: issue it for that",
            fits.hosts.join(" or ")
        ),
    ))
}

/// Checks that the authorities have issued the certificate: all members have the same ones.
fn issued(files: &TlsFiles, chain: &Certificates, authorities: &Certificates) -> Result<(), TlsError> {
    match verify_own(files, chain, authorities)? {
        // A certificate that is trusted itself needs no authority.
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature))
            if !authorities.contains(&chain[0]) =>
        {
            let why = format!("none in it has issued {}", files.cert_file.display());
            Err(cannot(&files.ca_file, "authority", &why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::testing::{Authority, Purpose, replace};
    use super::*;

    fn fits(hosts: &[&str], as_client: bool) -> Fits {
        Fits {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            as_client,
        }
    }

    #[test]
    fn each_file_that_etcd_cannot_work_with_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let good = |name: &str| authority.issue(dir.path(), name, &["n1", "10.0.0.1"], 2099);
        let peer = fits(&["10.0.0.1"], true);
        let found = |files: &TlsFiles| {
            unusable(files, &peer)
                .unwrap_or_default()
                .replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(found(&good("n1")), "");

        let files = good("gone");
        fs::remove_file(&files.key_file).unwrap();
        assert_eq!(
            found(&files),
            "cannot use the private key in DIR/gone.key: it is not there"
        );
        let files = good("other");
        fs::copy(good("n1").key_file, &files.key_file).unwrap();
        assert_eq!(
            found(&files),
            "cannot use the private key in DIR/other.key: it is not the key of DIR/other.crt"
        );
        for (file, text) in [
            ("crt", "cannot use the certificate in DIR/text.crt: "),
            ("key", "cannot use the private key in DIR/text.key: "),
            ("ca", "cannot use the certificate in DIR/text.ca: "),
        ] {
            good("text");
            for content in ["nonsense", "", "-----BEGIN CERTIFICATE-----\nAAAA\n"] {
                replace(&dir.path().join(format!("text.{file}")), content);
                let files = TlsFiles {
                    cert_file: dir.path().join("text.crt"),
                    key_file: dir.path().join("text.key"),
                    ca_file: dir.path().join("text.ca"),
                };
                assert!(
                    found(&files).starts_with(text),
                    "{file} {content:?}: {}",
                    found(&files)
                );
            }
        }
        let files = authority.issue(dir.path(), "old", &["10.0.0.1"], 2021);
        assert!(found(&files).ends_with("has expired: install a new one"));
        let files = authority.issue(dir.path(), "n2", &["n2", "10.0.0.2"], 2099);
        assert_eq!(
            found(&files),
            "cannot use the certificate in DIR/n2.crt: it names n2, 10.0.0.2, and others connect to 10.0.0.1: issue it \
             for that"
        );
        let files = good("foreign");
        let stranger = Authority::new().issue(dir.path(), "stranger", &["x"], 2099);
        fs::copy(stranger.ca_file, &files.ca_file).unwrap();
        assert_eq!(
            found(&files),
            "cannot use the authority in DIR/foreign.ca: none in it has issued DIR/foreign.crt"
        );
    }

    #[test]
    fn what_one_side_alone_may_do_is_enough_for_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let files = authority.issue_for(dir.path(), "server", &["n1"], Purpose::Server);
        assert_eq!(unusable(&files, &fits(&["10.0.0.1", "n1"], false)), None);
        let found = unusable(&files, &fits(&["n1"], true)).unwrap();
        assert!(found.contains("lacks clientAuth"), "{found}");
        let files = authority.issue_for(dir.path(), "any", &["*.example.org"], Purpose::Unsaid);
        assert_eq!(unusable(&files, &fits(&["n1.example.org"], true)), None);
        assert_eq!(
            unusable(&files, &fits(&[], true)),
            None,
            "nobody else connects to it"
        );
    }

    /// Keys that are not understood here may work in etcd.
    #[test]
    fn a_key_of_another_kind_is_no_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let p521 = |name: &str| {
            format!(
                "{}/src/adapters/tls/testdata/p521.{name}",
                env!("CARGO_MANIFEST_DIR")
            )
        };
        let files = TlsFiles {
            cert_file: p521("crt").into(),
            key_file: p521("key").into(),
            ca_file: p521("crt").into(),
        };
        assert_eq!(unusable(&files, &fits(&["n1"], true)), None);
        let other = Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
        let mixed = TlsFiles {
            key_file: files.key_file,
            ..other
        };
        assert!(
            unusable(&mixed, &fits(&["n1"], true)).is_some(),
            "of another certificate"
        );
    }

    #[test]
    fn a_file_that_may_not_be_read_is_named_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let files = Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
        fs::set_permissions(&files.key_file, fs::Permissions::from_mode(0o000)).unwrap();
        let denied = unreadable(
            &files.key_file,
            "private key",
            &io::ErrorKind::PermissionDenied.into(),
        );
        assert!(denied.to_string().contains("with mode 0640"), "{denied}");
        if rustix::process::geteuid().as_raw() != 0 {
            let found = unusable(&files, &Fits::default()).unwrap();
            assert!(found.contains("with mode 0640"), "{found}");
        }
    }
}
