//! Certificates for one inspection of a throw-away etcd.
//!
//! If authentication is on, etcd takes the common name of a client's certificate as its user. The user `root`
//! then exists and may do everything: authentication cannot be turned on without it
//! (<https://etcd.io/docs/v3.6/op-guide/authentication/rbac/>).

use std::fmt::Display;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::model::TlsFiles;
use crate::unit::files;

/// Makes an authority that signs once, and one key pair for both `root` and the server on 127.0.0.1, in
/// `dir`.
pub(super) fn make(dir: &Path) -> Result<TlsFiles, String> {
    let (ca, pair, key) = sign().map_err(|error| failed("making", dir, error))?;
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        let written = files::write_atomic(&path, text.as_bytes(), 0o600);
        written
            .map(|()| path.clone())
            .map_err(|error| failed("writing", &path, error))
    };
    Ok(TlsFiles {
        ca_file: write("ca.crt", &ca)?,
        cert_file: write("verify.crt", &pair)?,
        key_file: write("verify.key", &key)?,
    })
}

fn failed(what: &str, path: &Path, error: impl Display) -> String {
    format!("{what} certificates in {}: {error}", path.display())
}

/// The authority's certificate, that of the pair, and its key, all PEM.
fn sign() -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority
        .distinguished_name
        .push(DnType::CommonName, "etcd-agent verify");
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?.pem();

    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "root");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate()?;
    let pair = params.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok((ca, pair.pem(), key.serialize_pem()))
}
