//! `etcd-agent backup run`: backups of an etcd that is not managed by an agent.

use std::path::PathBuf;

use super::exit::{Exit, Failure, Outcome};
use crate::config;
use crate::model::{ClusterId, TlsFiles};

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// `[store]`, `[backup]` and `cluster.name`; no agent on this host reads this file
    #[arg(long, value_name = "FILE", default_value = "/etc/etcd-agent/backup.toml")]
    config: PathBuf,
    /// Client URLs of the members, e.g. <https://10.0.0.1:2379>; a caught-up follower among them is backed up
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:2379"
    )]
    endpoints: Vec<String>,
    /// The authorities that etcd's certificates are checked against
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    cacert: Option<PathBuf>,
    /// The client certificate
    #[arg(long, value_name = "FILE", requires = "cacert")]
    cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cacert")]
    key: Option<PathBuf>,
    /// The cluster's new ID after a restore by hand; otherwise a cluster with another ID than the newest backup is
    /// refused
    #[arg(long, value_name = "ID")]
    cluster_id: Option<ClusterId>,
    /// Take one backup and exit: for a timer
    #[arg(long)]
    once: bool,
}

pub(super) async fn run(args: RunArgs) -> Outcome {
    crate::telemetry::init();
    let loaded = config::load_file(&args.config)?;
    let tls = match (args.cacert, args.cert, args.key) {
        (Some(ca_file), Some(cert_file), Some(key_file)) => Some(TlsFiles {
            cert_file,
            key_file,
            ca_file,
        }),
        _ => None,
    };
    let standalone = crate::agent::StandaloneBackup {
        settings: loaded.settings,
        endpoints: args.endpoints,
        tls,
        cluster_id: args.cluster_id,
        once: args.once,
    };
    crate::agent::run_standalone_backup(standalone)
        .await
        .map(|()| Exit::Ok)
        .map_err(|error| Failure::failed(format!("{error:#}").replace('\n', "; ")))
}
