//! The paths of all files. They have a root, so that tests can put all of them below a temporary directory.

use std::path::{Path, PathBuf};

/// Every path that the agent and its oneshots use.
#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// The paths of the real system.
    pub fn system() -> Self {
        Self::below("/")
    }
    /// All paths below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
    /// An absolute path from the configuration, below this root.
    pub fn host(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
    fn at(&self, path: &str) -> PathBuf {
        self.root
            .join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
    }
    /// Configuration sources, weakest first: directories are read as `*.toml` in name order. All of them
    /// belong to root.
    pub fn config_sources(&self) -> Vec<PathBuf> {
        vec![
            self.at("/usr/lib/etcd-agent/config.d"),
            self.config_dir_of_boot(),
            self.config_file(),
            self.at("/etc/etcd-agent/config.d"),
        ]
    }
    /// Fragments for this boot: root's, 0755. They are not below [`Self::run`], because the daemon's user can
    /// write there.
    pub fn config_dir_of_boot(&self) -> PathBuf {
        self.at("/run/etcd-agent-config.d")
    }
    /// The directory where earlier versions read fragments of this boot. The daemon's user can write there.
    pub fn config_dir_of_old(&self) -> PathBuf {
        self.run().join("config.d")
    }
    /// Root's copy of the configuration for a oneshot of another user: 0644, in the private `/tmp` of its unit.
    pub fn config_copy(&self) -> PathBuf {
        self.at("/tmp/etcd-agent-config.json")
    }
    /// The hosts of several clusters, for `status --all`.
    pub fn clusters_file(&self) -> PathBuf {
        self.at("/etc/etcd-agent/clusters.toml")
    }
    /// The main configuration file, which `init` writes.
    pub fn config_file(&self) -> PathBuf {
        self.at("/etc/etcd-agent/config.toml")
    }
    /// Root's directory: mode 0755, only root may write in it.
    pub fn lib(&self) -> PathBuf {
        self.at("/var/lib/etcd-agent")
    }
    /// etcd's environment, written by `etcd-agent-apply.service`, root's, 0644.
    pub fn etcd_env(&self) -> PathBuf {
        self.lib().join("etcd.env")
    }
    /// The configuration that root has accepted although the node loses settings that it runs with: root's,
    /// 0644.
    pub fn accepted_losses(&self) -> PathBuf {
        self.lib().join("accepted-losses")
    }
    /// The agent's own state, `etcd-agent:etcd-agent` 0755 (files in it 0600, except gate.json and
    /// data-request.json).
    pub fn state(&self) -> PathBuf {
        self.lib().join("state")
    }
    /// Fetched snapshots that await their restore: `etcd-agent:etcd` 2750, files 0640.
    pub fn restore(&self) -> PathBuf {
        self.lib().join("restore")
    }
    /// Local backups of `init`: `etcd-agent:etcd-agent` 0700.
    pub fn backups(&self) -> PathBuf {
        self.lib().join("backups")
    }
    /// Backups are restored here for verification, and then deleted: `etcd-agent:etcd-agent-verify` 2770.
    pub fn verify(&self) -> PathBuf {
        self.lib().join("verify")
    }
    /// The request to `etcd-agent-verify.service`.
    pub fn verify_request(&self) -> PathBuf {
        self.verify().join("request.json")
    }
    /// The report of `etcd-agent-verify.service`.
    pub fn verify_report(&self) -> PathBuf {
        self.verify().join("report.json")
    }
    /// The elector's memory.
    pub fn elector(&self) -> PathBuf {
        self.state().join("elector.json")
    }
    /// The assignment (0600... read by root in apply).
    pub fn assignment(&self) -> PathBuf {
        self.state().join("assignment.json")
    }
    /// The orders of operators for the whole cluster.
    pub fn directives(&self) -> PathBuf {
        self.state().join("directives.json")
    }
    /// The record of the API that the agent serves.
    pub fn api_record(&self) -> PathBuf {
        self.state().join("api.json")
    }
    /// The record of the etcd process.
    pub fn etcd_run(&self) -> PathBuf {
        self.state().join("etcd-run.json")
    }
    /// The reboot locks of this node and, as far as it knows, of the others.
    pub fn reboot_locks(&self) -> PathBuf {
        self.state().join("reboot-locks.json")
    }
    /// This node's record of the wanted size.
    pub fn spec(&self) -> PathBuf {
        self.state().join("spec.json")
    }
    /// The state from which the gate may decide without an agent: 0644.
    pub fn gate(&self) -> PathBuf {
        self.state().join("gate.json")
    }
    /// The mount that held the data directory when it was last seen to hold a member's data: 0644.
    pub fn data_mount(&self) -> PathBuf {
        self.state().join("data-mount.json")
    }
    /// The request to the owner of the data directory: 0644, without secrets.
    pub fn data_request(&self) -> PathBuf {
        self.state().join("data-request.json")
    }
    /// The daemon's runtime directory, `RuntimeDirectory=etcd-agent`, 0755, lost at boot and preserved over
    /// restarts.
    pub fn run(&self) -> PathBuf {
        self.at("/run/etcd-agent")
    }
    /// The generation for which the gate was cleared in this boot: 0644.
    pub fn gate_cleared(&self) -> PathBuf {
        self.run().join("gate-cleared")
    }
    /// The marker that the last stop in this boot was the agent's own.
    pub fn stopped_by_agent(&self) -> PathBuf {
        self.run().join("stopped-by-agent")
    }
    /// The marker that an operator stopped `etcd.service` last in this boot.
    pub fn stopped_by_operator(&self) -> PathBuf {
        self.run().join("stopped-by-operator")
    }
    /// The admin socket: 0660, group etcd-agent.
    pub fn admin_socket(&self) -> PathBuf {
        self.run().join("agent.sock")
    }
    /// The gate's socket: 0666, because anybody on the host may ask it.
    pub fn gate_socket(&self) -> PathBuf {
        self.run().join("gate.sock")
    }
    /// The override file. If root creates it, the gate passes in this boot regardless of all checks; the
    /// person who creates it is responsible.
    pub fn gate_override(&self) -> PathBuf {
        self.run().join("gate-override")
    }
    /// The result that `etcd-agent-apply.service` read back: root's, 0644, below `/run/etcd-agent-apply`.
    pub fn apply_result(&self) -> PathBuf {
        self.at("/run/etcd-agent-apply/result.json")
    }
    /// The report of `etcd-agent-data.service`: etcd's, 0644, below `/run/etcd-agent-data`.
    pub fn data_report(&self) -> PathBuf {
        self.at("/run/etcd-agent-data/report.json")
    }
    /// The drop-in directory of `etcd.service` if `/etc` is read-only. Its content is lost at each boot.
    pub fn drop_in_dir_runtime(&self) -> PathBuf {
        self.at("/run/systemd/system/etcd.service.d")
    }
    /// The drop-in directory of `etcd.service`.
    pub fn drop_in_dir(&self) -> PathBuf {
        self.at("/etc/systemd/system/etcd.service.d")
    }
}
