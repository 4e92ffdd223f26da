#![allow(clippy::unwrap_used)]

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::testing::{Authority, replace};
use super::*;

#[test]
fn certificates_name_hosts_and_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(
        dir.path(),
        "n1",
        &["n1", "N1.example.org", "10.0.0.1", "fd00::1"],
        2099,
    );
    let certificate = CertificateDer::from_pem_file(&files.cert_file).unwrap();
    let names = CertificateNames::of(&certificate).unwrap();
    for host in ["n1", "N1", "n1.EXAMPLE.org", "10.0.0.1", "fd00:0::1"] {
        assert!(names.covers(host), "{host}");
    }
    for host in ["n2", "n1.example", "10.0.0.2", "::1", ""] {
        assert!(!names.covers(host), "{host}");
    }
    assert_eq!(names.text(), "n1, N1.example.org, 10.0.0.1, fd00::1");
    assert_eq!(Tls::load(files).unwrap().not_after(), names.not_after);
}

#[test]
fn changed_files_are_read_and_bad_ones_keep_what_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(dir.path(), "n1", &["n1"], 2098);
    let tls = Tls::load_checking_every(files.clone(), Duration::ZERO).unwrap();
    let before = tls.not_after();
    assert_eq!(tls.generation(), 1);

    authority.issue(dir.path(), "n1", &["n1"], 2099);
    assert_eq!(tls.generation(), 2);
    assert!(tls.not_after() > before);

    let good = std::fs::read_to_string(&files.key_file).unwrap();
    replace(&files.key_file, "nonsense");
    for _ in 0..3 {
        assert_eq!(tls.generation(), 2, "a bad key keeps the old pair");
    }
    std::fs::remove_file(&files.cert_file).unwrap();
    assert_eq!(tls.generation(), 2, "a missing certificate as well");
    authority.issue(dir.path(), "n1", &["n1"], 2099);
    assert_eq!(tls.generation(), 3);
    replace(&files.key_file, &good);
    assert_eq!(tls.generation(), 3, "the key of another certificate does not fit");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let good = authority.issue(dir.path(), "n1", &["n1"], 2099);
    let other = authority.issue(dir.path(), "n2", &["n2"], 2099);
    std::fs::write(dir.path().join("empty"), "").unwrap();
    let table = [
        (
            "no file",
            TlsFiles {
                cert_file: dir.path().join("nope"),
                ..good.clone()
            },
            "nope: No such file",
        ),
        (
            "empty file",
            TlsFiles {
                ca_file: dir.path().join("empty"),
                ..good.clone()
            },
            "no PEM certificate",
        ),
        (
            "another's key",
            TlsFiles {
                key_file: other.key_file,
                ..good.clone()
            },
            "does not fit",
        ),
        (
            "no key in it",
            TlsFiles {
                key_file: good.cert_file.clone(),
                ..good
            },
            "no such PEM section",
        ),
    ];
    for (what, files, expected) in table {
        let error = Tls::load(files).err().unwrap().to_string();
        assert!(error.contains(expected), "{what}: {error}");
        assert!(!error.contains('\n'), "{what}: {error}");
    }
}
