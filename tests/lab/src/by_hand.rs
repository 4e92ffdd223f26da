//! A cluster without the agent: Debian's own unit and environment file, as people set it up.

use std::fmt::Write as _;

use anyhow::Result;

use crate::host::Host;
use crate::lab::Lab;

impl Lab {
    /// Writes certificates and `/etc/default/etcd` on all hosts, and starts nothing. `extra` is appended to
    /// that file.
    pub fn prepare_by_hand(&self, extra: &str) -> Result<()> {
        self.each(|host| {
            if self.has_tls() {
                let ca = self.ca()?;
                ca.install(host, &ca.issue_for(host)?, "/etc/etcd/tls", "etcd")?;
            }
            self.write_env_by_hand(host, "new", extra)?;
            host.systemctl(&["enable", "etcd.service"])?.ok()?;
            Ok(())
        })
    }

    /// The `etcdctl` command line for the etcd of these hosts, for a shell on a machine that reaches them
    /// all.
    pub fn etcdctl_line(&self, hosts: &[&Host]) -> Result<String> {
        let endpoints: Vec<_> = hosts.iter().map(|host| self.client_url(host)).collect();
        let (cert, key) = self.client_files()?;
        Ok(format!(
            "nsenter --net=/run/netns/{} {} --endpoints={} --cacert={} --cert={} --key={}",
            self.net().outside_namespace(),
            self.etcd_program("etcdctl").display(),
            endpoints.join(","),
            self.ca()?.cert_path().display(),
            cert.display(),
            key.display()
        ))
    }

    /// Writes `/etc/default/etcd` of one host, with this initial cluster state.
    pub fn write_env_by_hand(&self, host: &Host, state: &str, extra: &str) -> Result<()> {
        host.write_file(
            "/etc/default/etcd",
            self.env_by_hand(host, state, extra),
            "0644",
            "root:root",
        )
    }

    /// The content that [`Lab::write_env_by_hand`] writes.
    pub fn env_by_hand(&self, host: &Host, state: &str, extra: &str) -> String {
        let http = if self.has_tls() { "https" } else { "http" };
        let cluster: Vec<_> = self
            .hosts()
            .iter()
            .map(|host| format!("{0}={http}://{0}:2380", host.name()))
            .collect();
        let (name, address) = (host.name(), host.address());
        let mut env = format!(
            "ETCD_NAME={name}\n\
             ETCD_LISTEN_PEER_URLS={http}://{address}:2380\n\
             ETCD_LISTEN_CLIENT_URLS={http}://{address}:2379,{http}://127.0.0.1:2379\n\
             ETCD_INITIAL_ADVERTISE_PEER_URLS={http}://{name}:2380\n\
             ETCD_ADVERTISE_CLIENT_URLS={http}://{name}:2379\n\
             ETCD_INITIAL_CLUSTER={}\n\
             ETCD_INITIAL_CLUSTER_STATE={state}\n\
             ETCD_INITIAL_CLUSTER_TOKEN=by-hand\n",
            cluster.join(",")
        );
        if self.has_tls() {
            for prefix in ["ETCD", "ETCD_PEER"] {
                let _ = write!(
                    env,
                    "{prefix}_CERT_FILE=/etc/etcd/tls/node.crt\n{prefix}_KEY_FILE=/etc/etcd/tls/node.key\n\
                     {prefix}_TRUSTED_CA_FILE=/etc/etcd/tls/ca.crt\n{prefix}_CLIENT_CERT_AUTH=true\n"
                );
            }
        }
        env + extra
    }

    /// Starts etcd on all hosts concurrently and waits until systemd reports it as started.
    pub fn start_by_hand(&self) -> Result<()> {
        self.each(|host| host.systemctl(&["start", "etcd.service"])?.ok().map(drop))
    }
}
