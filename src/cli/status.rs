//! `etcd-agent status`.

use std::path::PathBuf;
use std::time::Duration;

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::health::{self, Health};
use super::status_view::{Form, shown};
use super::{clusters, out, status_watch};
use crate::model::AdminStatus;
use crate::paths::Paths;

/// Show the cluster's health, its nodes, and what it waits for
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Look again every SECONDS, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
    /// All clusters of clusters.toml, one line each, over ssh
    #[arg(long, conflicts_with = "watch")]
    all: bool,
    /// With --all: another file [default: ~/.config/etcd-agent/clusters.toml, /etc/etcd-agent/clusters.toml]
    #[arg(long, value_name = "FILE", requires = "all")]
    clusters: Option<PathBuf>,
    /// Output format; wide: with more columns
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    form: Form,
}

impl StatusArgs {
    /// True for `--all`.
    pub(super) fn is_of_all(&self) -> bool {
        self.all
    }
}

/// `--watch=SECONDS`.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("found {text:?}, expected a number of seconds from 1 to 3600"))
}

pub(super) async fn run(paths: &Paths, args: StatusArgs) -> Outcome {
    if args.all {
        return clusters::run(paths, args.clusters, args.form).await;
    }
    let client = Client::new(paths);
    if let Some(every) = args.watch {
        return status_watch::run(&client, every, args.form).await;
    }
    let status: AdminStatus = client.get("/v1/status").await?;
    out::print_clean(&shown(&status, args.form)?)?;
    Ok(exit(&status))
}

/// The exit code for the health of the cluster.
pub(super) fn exit(status: &AdminStatus) -> Exit {
    match health::judge(status) {
        Health::Healthy => Exit::Ok,
        Health::Degraded(_) => Exit::Degraded,
        Health::Down(_) => Exit::Down,
        Health::Starting => Exit::Starting,
    }
}
