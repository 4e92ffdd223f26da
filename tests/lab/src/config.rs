//! The agent's configuration as the lab writes it, and the package that it configures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::host::Host;
use crate::lab::{Lab, PATIENCE};
use crate::s3::S3;

/// The path of the S3 keys on a host.
const CREDENTIALS: &str = "/etc/etcd-agent/aws-credentials";

/// The backup store.
#[derive(Debug, Clone)]
pub enum Store {
    /// The lab's S3 server, below this prefix of its bucket.
    S3(String),
    /// A directory of the host.
    Dir(String),
    /// No backups.
    None,
}

/// The content of `/etc/etcd-agent/config.toml`; [`Lab::configure`] fills it for the lab.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// This node's name.
    pub node: String,
    /// The cluster's name.
    pub cluster: String,
    /// The wanted number of members.
    pub size: u8,
    /// The electorate: node names and their addresses.
    pub nodes: BTreeMap<String, String>,
    /// Mutual TLS everywhere, or explicitly plain HTTP.
    pub tls: bool,
    /// The backup store.
    pub store: Store,
    /// The interval between full backups, e.g. `15m`.
    pub backup_interval: String,
    /// More lines of the `[cluster]` table.
    pub membership: String,
    /// More TOML, appended verbatim: whole tables only.
    pub extra: String,
}

impl AgentConfig {
    /// The file's text.
    pub fn to_toml(&self, endpoint: &str) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|(name, address)| format!("{name} = \"{address}\""))
            .collect();
        let mut text = format!(
            "[node]\nname = \"{}\"\n\n[cluster]\nname = \"{}\"\nsize = {}\nnodes = {{ {} }}\n{}\n\
             [api]\nlisten = \"0.0.0.0:2378\"\n",
            self.node,
            self.cluster,
            self.size,
            nodes.join(", "),
            self.membership
        );
        if !self.tls {
            text.push_str("insecure = true\n");
        }
        let files = |dir: &str| {
            format!(
                "cert_file = \"{dir}/node.crt\"\nkey_file = \"{dir}/node.key\"\nca_file = \"{dir}/ca.crt\"\n"
            )
        };
        if self.tls {
            let _ = write!(text, "\n[api.tls]\n{}", files("/etc/etcd-agent/tls"));
        }
        // The data directory follows etcd's unit.
        text.push_str("\n[etcd]\nclient_port = 2379\npeer_port = 2380\n");
        if self.tls {
            for table in ["client_tls", "peer_tls"] {
                let _ = write!(text, "\n[etcd.{table}]\n{}", files("/etc/etcd/tls"));
            }
        }
        match &self.store {
            Store::S3(prefix) => {
                let _ = write!(
                    text,
                    "\n[store]\nurl = \"s3://{}/{prefix}\"\nendpoint = \"{endpoint}\"\nregion = \"{}\"\n\
                     path_style = true\ncredentials_file = \"{CREDENTIALS}\"\n",
                    S3::BUCKET,
                    S3::REGION
                );
            }
            Store::Dir(path) => {
                let _ = write!(text, "\n[store]\nurl = \"file://{path}\"\n");
            }
            Store::None => {}
        }
        if !matches!(self.store, Store::None) {
            let _ = write!(text, "\n[backup]\ninterval = \"{}\"\n", self.backup_interval);
        }
        let _ = write!(text, "\n{}", self.extra);
        text
    }
}

impl Lab {
    /// Installs a package on all hosts concurrently.
    pub fn install(&self, deb: &Path) -> Result<()> {
        self.each(|host| host.install_deb(deb))
    }

    /// Writes the agent's configuration, certificates and S3 keys on all hosts. The package must be
    /// installed. `change` gets the lab's default for each host: all hosts are electors and members, mutual
    /// TLS unless the lab is plain, backups in S3 under `lab`.
    pub fn configure(&self, change: impl Fn(&Host, &mut AgentConfig) + Sync) -> Result<()> {
        let nodes: BTreeMap<_, _> = self
            .hosts()
            .iter()
            .map(|host| (host.name().to_owned(), host.name().to_owned()))
            .collect();
        self.each(|host| {
            let mut config = AgentConfig {
                node: host.name().to_owned(),
                cluster: "prod".to_owned(),
                size: u8::try_from(self.hosts().len())?,
                nodes: nodes.clone(),
                tls: self.has_tls(),
                store: Store::S3("lab".to_owned()),
                backup_interval: "15m".to_owned(),
                membership: String::new(),
                extra: String::new(),
            };
            change(host, &mut config);
            self.write_config(host, &config)
        })
    }

    /// Writes one host's configuration, with the certificates and S3 keys that it names.
    pub fn write_config(&self, host: &Host, config: &AgentConfig) -> Result<()> {
        if config.tls {
            self.ca()?.install_all(host)?;
        }
        if matches!(config.store, Store::S3(_)) {
            host.write_file(
                CREDENTIALS,
                self.s3().credentials_file(),
                "0640",
                "root:etcd-agent",
            )?;
        }
        let text = config.to_toml(&self.s3().endpoint());
        host.write_file("/etc/etcd-agent/config.toml", text, "0644", "root:root")
    }

    /// (Re)starts the agent on all hosts concurrently, which forms the cluster.
    pub fn start_agents(&self) -> Result<()> {
        self.each(|host| host.systemctl(&["restart", "etcd-agent"])?.ok().map(drop))
    }

    /// The usual start for hosts that have the package: starts S3, configures and starts the agents, and
    /// waits for one healthy member per host. Returns the time since the agents' start.
    pub fn form(&self) -> Result<Duration> {
        self.s3().start()?;
        self.configure(|_, _| ())?;
        let start = std::time::Instant::now();
        self.start_agents()?;
        self.wait_healthy(self.hosts().len(), PATIENCE)?;
        Ok(start.elapsed())
    }
}

/// The package to test: `$ETCD_AGENT_DEB`, else the newest `etcd-agent_*.deb` in `target/`, the workspace or
/// its parent.
pub fn built_deb() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ETCD_AGENT_DEB") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            bail!("ETCD_AGENT_DEB={} is not a file", path.display())
        };
    }
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut found = Vec::new();
    for dir in ["target/debian", "target/deb", "target", "..", "."] {
        for entry in fs::read_dir(workspace.join(dir)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("etcd-agent_") && Path::new(&name).extension().is_some_and(|ext| ext == "deb")
            {
                found.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
    }
    let newest = found.into_iter().max().map(|(_, path)| path);
    newest.context("no etcd-agent_*.deb: `make deb` builds it, or name one in ETCD_AGENT_DEB")
}

#[cfg(test)]
mod tests {
    use super::{AgentConfig, Store};
    use std::collections::BTreeMap;

    #[test]
    fn plain_and_tls_configurations() {
        let mut config = AgentConfig {
            node: "n1".into(),
            cluster: "prod".into(),
            size: 1,
            nodes: BTreeMap::from([("n1".into(), "n1".into())]),
            tls: false,
            store: Store::None,
            backup_interval: "15m".into(),
            membership: String::new(),
            extra: String::new(),
        };
        let plain = config.to_toml("http://s3:7070");
        assert!(plain.contains("nodes = { n1 = \"n1\" }") && plain.contains("insecure = true"));
        assert!(!plain.contains("tls") && !plain.contains("[backup]"));
        config.tls = true;
        config.store = Store::S3("lab".into());
        let tls = config.to_toml("http://s3:7070");
        assert!(tls.contains("[etcd.peer_tls]") && !tls.contains("insecure"));
        assert!(tls.contains("url = \"s3://backups/lab\"\nendpoint = \"http://s3:7070\""));
    }
}
