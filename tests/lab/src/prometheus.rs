//! Prometheus in the network namespace of a host, with the alert rules of the package. It scrapes all agents over
//! mutual TLS.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cache;
use crate::cgroup::Cgroup;
use crate::cmd::Cmd;
use crate::daemon;
use crate::host::Host;
use crate::lab::Lab;
use crate::wait::wait_until;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");

/// Increase this whenever `program` below changes.
const RECIPE: &str = "1";

/// Debian's `prometheus`. It is made now if it does not exist.
pub(crate) fn program() -> Result<PathBuf> {
    let entry = cache::entry("prometheus", RECIPE, |dir| {
        let script = Path::new(PACKAGING).join("promtool.sh");
        let command = Cmd::new(script).caller_env().arg(dir);
        command.deadline(Duration::from_mins(5)).ok().map(drop)
    })?;
    Ok(entry.join("prometheus"))
}

/// Where a program on its host finds it.
pub const PROMETHEUS: &str = "http://127.0.0.1:9090";

impl Lab {
    /// Starts Prometheus on `host`; it runs until the lab ends. Each second it scrapes the agents of all hosts
    /// at `port`, over HTTPS with the client certificate of the lab. Its rules are those of the package.
    pub fn start_prometheus(&self, host: &Host, port: u16) -> Result<()> {
        let dir = self.dir().join("prometheus");
        fs::create_dir_all(&dir)?;
        let config = dir.join("prometheus.yml");
        fs::write(&config, configuration(self, port)?)?;
        let argv = [
            "nsenter".to_owned(),
            format!("--net=/run/netns/{}", self.net().namespace(host.name())),
            program()?.display().to_string(),
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            "--web.listen-address=127.0.0.1:9090".to_owned(),
        ];
        let group = Cgroup::new(format!("{}/prometheus", self.id()));
        let log = dir.join("log");
        daemon::start(&group, &argv, &[], &log)?;
        let ready = format!("{PROMETHEUS}/-/ready");
        wait_until("Prometheus to be ready", Duration::from_secs(30), || {
            let asked = host.exec(&["curl", "-sf", "--max-time", "5", &ready])?;
            Ok(asked.success())
        })
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())
        .map(drop)
    }
}

fn configuration(lab: &Lab, port: u16) -> Result<String> {
    let (certificate, key) = lab.client_files()?;
    let mut text = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files:\n  - {PACKAGING}/etcd-agent.rules.yml\n\
         scrape_configs:\n  - job_name: etcd-agent\n    scheme: https\n    tls_config:\n      ca_file: {}\n      \
         cert_file: {}\n      key_file: {}\n    static_configs:\n      - labels:\n          cluster: prod\n        \
         targets:\n",
        lab.ca()?.cert_path().display(),
        certificate.display(),
        key.display(),
    );
    for host in lab.hosts() {
        let _ = writeln!(text, "          - {}:{port}", host.address());
    }
    Ok(text)
}
