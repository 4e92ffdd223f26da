//! A key pair that `age-keygen` makes, as an operator would make it.

use std::path::{Path, PathBuf};

use etcd_agent::config::Encryption;
use etcd_agent_lab::{Cmd, age_program};

/// The encryption settings of a node that only writes, and of a node that only reads.
pub struct AgeKeys {
    pub only_write: Encryption,
    pub only_read: Encryption,
    pub identity_file: PathBuf,
}

impl AgeKeys {
    /// Makes a new pair. The identity is a file in `dir`.
    pub fn make(dir: &Path) -> Self {
        let keygen = age_program().unwrap().with_file_name("age-keygen");
        let identity_file = dir.join("identity");
        Cmd::new(&keygen).arg("-o").arg(&identity_file).ok().unwrap();
        let recipient = Cmd::new(&keygen).arg("-y").arg(&identity_file).ok().unwrap();
        Self {
            only_write: Encryption {
                recipients: vec![recipient.text().trim().to_owned()],
                identity_file: None,
                accept_plaintext_before: None,
            },
            only_read: Encryption {
                recipients: Vec::new(),
                identity_file: Some(identity_file.clone()),
                accept_plaintext_before: None,
            },
            identity_file,
        }
    }
}
