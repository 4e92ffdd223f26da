//! Certificates of a lab: an authority and the certificates that it issues. A test can make further
//! authorities that the hosts do not trust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::host::Host;

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl Pair {
    /// Writes `<name>.crt` and `<name>.key` into `dir`.
    pub fn save(&self, dir: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(dir)?;
        let (cert, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        fs::write(&cert, &self.cert)?;
        fs::write(&key, &self.key)?;
        Ok((cert, key))
    }
}

/// A certificate authority whose files are kept in a directory.
#[derive(Debug, Clone)]
pub struct Authority {
    name: String,
    pair: Pair,
    dir: PathBuf,
}

impl Authority {
    /// The authority in this directory. It is made now if there is none.
    pub fn open(dir: &Path, name: &str) -> Result<Self> {
        let (cert, key) = (dir.join("ca.crt"), dir.join("ca.key"));
        if !key.exists() {
            let pair = root(name)?;
            pair.save(dir, "ca")?;
        }
        let pair = Pair {
            cert: fs::read_to_string(cert)?,
            key: fs::read_to_string(key)?,
        };
        Ok(Self {
            name: name.to_owned(),
            pair,
            dir: dir.to_owned(),
        })
    }

    /// Its certificate, PEM.
    pub fn cert(&self) -> &str {
        &self.pair.cert
    }

    /// The path of its certificate on the outer machine.
    pub fn cert_path(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// A certificate for servers and clients alike, valid for these DNS names and addresses.
    pub fn issue(&self, common_name: &str, names: &[String]) -> Result<Pair> {
        self.issue_with(common_name, names, |_| ())
    }

    fn issue_with(
        &self,
        common_name: &str,
        names: &[String],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<Pair> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let issuer = Issuer::new(root_params(&self.name)?, KeyPair::from_pem(&self.pair.key)?);
        let key = KeyPair::generate()?;
        Ok(Pair {
            cert: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// A certificate with the right names for this host.
    pub fn issue_for(&self, host: &Host) -> Result<Pair> {
        self.issue(host.name(), &names_of(host))
    }

    /// The same, but it has expired.
    pub fn issue_expired_for(&self, host: &Host) -> Result<Pair> {
        self.issue_with(host.name(), &names_of(host), |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    /// Installs a pair and this authority's certificate as `<dir>/{ca.crt,node.crt,node.key}` for a service
    /// of the host, owned by root and readable by `group`.
    pub fn install(&self, host: &Host, pair: &Pair, dir: &str, group: &str) -> Result<()> {
        let owner = format!("root:{group}");
        // Only the key is a secret: the agent also has to verify etcd's certificate.
        for (name, content, mode) in [
            ("ca.crt", &self.pair.cert, "0644"),
            ("node.crt", &pair.cert, "0644"),
            ("node.key", &pair.key, "0640"),
        ] {
            host.write_file(&format!("{dir}/{name}"), content.as_bytes(), mode, &owner)
                .with_context(|| format!("certificates for group {group}"))?;
        }
        Ok(())
    }

    /// Installs certificates for the agent and for etcd of this host. The package must be installed, because
    /// it creates the group `etcd-agent`.
    pub fn install_all(&self, host: &Host) -> Result<()> {
        self.install(host, &self.issue_for(host)?, "/etc/etcd-agent/tls", "etcd-agent")?;
        self.install(host, &self.issue_for(host)?, "/etc/etcd/tls", "etcd")
    }
}

/// The names and addresses under which others connect to this host.
fn names_of(host: &Host) -> [String; 4] {
    [host.name(), "localhost", "127.0.0.1", &host.address().to_string()].map(str::to_owned)
}

/// The same parameters each time, so that the certificate on disk and an issuer made from its key agree.
fn root_params(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn root(name: &str) -> Result<Pair> {
    let key = KeyPair::generate()?;
    Ok(Pair {
        cert: root_params(name)?.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}
