#![allow(clippy::unwrap_used)]

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::testing::{Authority, replace};
use super::*;
use crate::ports::{Certificates, EtcdCertificates as _};

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
    assert_eq!(Tls::load(files).unwrap().not_after(), Some(names.not_after));
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
fn bad_files_are_a_trouble_until_they_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(dir.path(), "n1", &["n1"], 2099);
    let tls = Tls::load_checking_every(files.clone(), Duration::ZERO).unwrap();
    assert_eq!(tls.trouble(), None);

    let good = std::fs::read_to_string(&files.key_file).unwrap();
    let other = authority.issue(dir.path(), "n2", &["n2"], 2099);
    replace(&files.key_file, &std::fs::read_to_string(other.key_file).unwrap());
    assert_eq!(tls.trouble(), None, "the certificate may follow");
    for _ in 0..2 {
        let said = tls.trouble().unwrap();
        assert!(
            said.contains("n1.key: it does not fit") && said.contains("does not start again"),
            "{said}"
        );
    }
    std::fs::remove_file(&files.key_file).unwrap();
    assert_eq!(tls.trouble(), None);
    let said = tls.trouble().unwrap();
    assert!(said.contains("n1.key: No such file"), "{said}");
    replace(&files.key_file, &good);
    assert_eq!(tls.trouble(), None);

    authority.issue(dir.path(), "n1", &["n1"], 2021);
    let said = tls.trouble().unwrap();
    assert!(said.contains("n1.crt") && said.contains("has expired"), "{said}");
}

/// Such as too many open files at both checks.
#[test]
fn files_that_could_not_be_read_twice_are_read_again_without_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(dir.path(), "n1", &["n1"], 2098);
    let tls = Tls::load_checking_every(files.clone(), Duration::ZERO).unwrap();
    authority.issue(dir.path(), "n1", &["n1"], 2099);
    tls.state.lock().unwrap().bad = Some(Bad {
        stamps: Stamps::of(&files),
        error: TlsError("Too many open files".to_owned()),
        found_twice: true,
        read: Instant::now(),
    });
    assert_eq!(tls.trouble(), None);
    assert_eq!(tls.generation(), 2);
}

#[test]
fn files_are_read_again_after_a_change_of_their_mode() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
    let before = stamp(std::slice::from_ref(&files));
    std::fs::set_permissions(&files.key_file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_ne!(stamp(&[files]), before);
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

/// Does a handshake in memory and returns the client's verdict on the server.
fn handshake(server: &Tls, client: Arc<ClientConfig>, address: &str) -> Result<(), rustls::Error> {
    let name = rustls::pki_types::ServerName::try_from(address.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(client, name).unwrap();
    let mut server = rustls::ServerConnection::new(server.server().0).unwrap();
    let mut wire = Vec::new();
    while client.is_handshaking() || server.is_handshaking() {
        wire.clear();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

/// Agents verify each other the same way in both directions. etcd's own certificates may have wildcards.
#[test]
fn f11d_a_wildcard_names_no_agent() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let issue =
        |file: &str, names: &[&str]| Tls::load(authority.issue(dir.path(), file, names, 2099)).unwrap();
    let me = issue("me", &["me"]);
    let table = [
        ("a wildcard", issue("w", &["*.example.org"]), false),
        ("the address", issue("a", &["n1.example.org"]), true),
        ("the node", issue("n", &["n1"]), true),
        (
            "a wildcard and the node",
            issue("b", &["*.example.org", "N1"]),
            true,
        ),
        ("another", issue("o", &["n2.example.org"]), false),
    ];
    for (what, server, expected) in table {
        let (agent, _) = me.client_of_agent("n1", &[b"http/1.1"]);
        let said = handshake(&server, agent, "n1.example.org");
        assert_eq!(said.is_ok(), expected, "{what}: {said:?}");
        // A server would judge this certificate the same way if a client presented it.
        let certificate = CertificateDer::from_pem_file(&server.files().cert_file).unwrap();
        let names = CertificateNames::of(&certificate).unwrap();
        assert_eq!(
            names.covers("n1.example.org") || names.covers("n1"),
            expected,
            "{what}"
        );
    }
    let wildcard = issue("w", &["*.example.org"]);
    let (etcd, _) = me.client(None, &[b"http/1.1"]);
    assert_eq!(handshake(&wildcard, etcd, "n1.example.org"), Ok(()));
}

/// etcd's verifier checks the authority's dates and ours does not, so the reported expiry is the earlier one.
#[test]
fn b13_the_expiry_is_that_of_the_authority_where_it_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let expiry = |files: &TlsFiles| Tls::load(files.clone()).unwrap().not_after();
    let long = Authority::new().issue(dir.path(), "long", &["n1"], 2060);
    let short = Authority::until(2050).issue(dir.path(), "short", &["n1"], 2060);
    assert!(expiry(&short) < expiry(&long));

    // The expiry of certificates that only etcd uses, with a key that this user cannot read.
    let sealed = Authority::until(2051).issue(dir.path(), "sealed", &["n1"], 2060);
    std::fs::remove_file(&sealed.key_file).unwrap();
    let etcds = EtcdCertificates::of(vec![long.clone(), sealed.clone(), short.clone()]);
    assert_eq!(etcds.not_after(), expiry(&short));
    std::fs::remove_file(&short.cert_file).unwrap();
    let rest = etcds.not_after_checking_every(Duration::ZERO).unwrap();
    assert!(
        expiry(&long) > Some(rest),
        "the one with the key that cannot be read"
    );
    let short = Authority::until(2050).issue(dir.path(), "short", &["n1"], 2060);
    assert_eq!(EtcdCertificates::of(Vec::new()).not_after(), None);

    // If the file holds the renewed authority next to the old one, the expiry of the old one does not count.
    let both = [&short.ca_file, &long.ca_file].map(|file| std::fs::read_to_string(file).unwrap());
    replace(&short.ca_file, &both.concat());
    assert_eq!(expiry(&short), expiry(&long));

    // Another certificate of the chain expires first.
    let chain = [&long.cert_file, &dir.path().join("brief.crt")];
    Authority::until(2040).issue(dir.path(), "brief", &["n1"], 2045);
    let chain = chain.map(|file| std::fs::read_to_string(file).unwrap());
    let before = expiry(&long);
    replace(&long.cert_file, &chain.concat());
    assert!(expiry(&long) < before);
}

/// etcd reads its authorities only when it starts.
#[test]
fn a_change_of_etcds_authorities_is_seen_unless_they_would_cut_it_off() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let client = old.issue(dir.path(), "client", &["n1"], 2099);
    let peer = old.issue(dir.path(), "peer", &["10.0.0.1"], 2099);
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let (old_pem, new_pem) = (
        read(&peer.ca_file),
        read(&new.issue(dir.path(), "new", &["n1"], 2099).ca_file),
    );
    let etcds = EtcdCertificates::of(vec![client.clone(), peer.clone()]);
    let seen = || etcds.authorities_checking_every(Duration::ZERO);
    let first = seen().unwrap();
    std::fs::remove_file(&peer.key_file).unwrap();
    old.issue(dir.path(), "client", &["n1"], 2098);
    assert_eq!(
        seen().as_ref(),
        Some(&first),
        "the same authority, a renewed certificate"
    );

    replace(&peer.ca_file, &format!("{old_pem}{new_pem}"));
    let both = seen().unwrap();
    assert_ne!(both, first);
    replace(&peer.ca_file, &format!("{new_pem}{old_pem}"));
    assert_eq!(seen().as_ref(), Some(&both), "in another order");
    replace(&peer.ca_file, &new_pem);
    assert_eq!(seen(), None, "its own certificate is of the old one");
    replace(&peer.ca_file, "-----BEGIN CERTIFICATE-----\n");
    assert_eq!(seen(), None, "half a file");
    replace(&peer.ca_file, &old_pem);
    assert_eq!(seen(), Some(first));
    assert_eq!(EtcdCertificates::of(Vec::new()).authorities(), None);
}
