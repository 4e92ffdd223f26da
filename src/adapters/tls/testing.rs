//! Certificates for tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

use crate::model::TlsFiles;

/// What a certificate may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Both,
    Server,
    /// Without extended key usage.
    Unsaid,
}

/// An authority that issues certificates into files.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::until(2099)
    }

    /// An authority that expires at the end of `year`.
    pub(crate) fn until(year: i32) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a certificate for these names, valid until the end of `last_year`, with the authority itself as
    /// `ca_file`.
    pub(crate) fn issue(&self, dir: &Path, file: &str, names: &[&str], last_year: i32) -> TlsFiles {
        self.issue_with(dir, file, names, (last_year, Purpose::Both))
    }

    /// Like [`Self::issue`], for this purpose.
    pub(crate) fn issue_for(&self, dir: &Path, file: &str, names: &[&str], purpose: Purpose) -> TlsFiles {
        self.issue_with(dir, file, names, (2099, purpose))
    }

    fn issue_with(
        &self,
        dir: &Path,
        file: &str,
        names: &[&str],
        (last_year, purpose): (i32, Purpose),
    ) -> TlsFiles {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        params.extended_key_usages = match purpose {
            Purpose::Both => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            Purpose::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Purpose::Unsaid => Vec::new(),
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let files = TlsFiles {
            cert_file: dir.join(format!("{file}.crt")),
            key_file: dir.join(format!("{file}.key")),
            ca_file: dir.join(format!("{file}.ca")),
        };
        replace(&files.cert_file, &certificate.pem());
        replace(&files.key_file, &key.serialize_pem());
        replace(&files.ca_file, &self.0.pem());
        files
    }
}

/// Writes a temporary file and renames it, as tools that rotate certificates do.
pub(crate) fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}
