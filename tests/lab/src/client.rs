//! etcd's own client, run outside the hosts.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::cmd::{Cmd, Output};
use crate::host::Host;
use crate::lab::{Lab, PATIENCE};
use crate::wait::{wait_for, wait_until};

impl Lab {
    /// The client URL of a host's etcd.
    pub fn client_url(&self, host: &Host) -> String {
        let scheme = if self.has_tls() { "https" } else { "http" };
        format!("{scheme}://{}:2379", host.address())
    }

    /// The client certificate and key of the outside, made at the first call.
    pub fn client_files(&self) -> Result<(PathBuf, PathBuf)> {
        let dir = self.dir().join("client");
        let (cert, key) = (dir.join("client.crt"), dir.join("client.key"));
        if key.exists() && cert.exists() {
            return Ok((cert, key));
        }
        let names = ["outside".to_owned(), self.net().outside_address().to_string()];
        self.ca()?.issue("outside", &names)?.save(&dir, "client")
    }

    /// Runs `etcdctl` against these hosts with the lab's certificates, and returns its output with any exit
    /// code.
    pub fn etcdctl(&self, hosts: &[&Host], args: &[&str]) -> Result<Output> {
        let endpoints: Vec<_> = hosts.iter().map(|host| self.client_url(host)).collect();
        let mut command = Cmd::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.net().outside_namespace()))
            .arg(self.etcd_program("etcdctl"))
            .arg(format!("--endpoints={}", endpoints.join(",")));
        if self.has_tls() {
            let (cert, key) = self.client_files()?;
            command = command
                .arg(format!("--cacert={}", self.ca()?.cert_path().display()))
                .arg(format!("--cert={}", cert.display()))
                .arg(format!("--key={}", key.display()));
        }
        command.args(args).deadline(Duration::from_mins(1)).run()
    }

    /// The members in a linearizable list through `host`: names of voters and of learners.
    pub fn members(&self, host: &Host) -> Result<(Vec<String>, Vec<String>)> {
        let output = self
            .etcdctl(&[host], &["member", "list", "-w", "json", "--command-timeout=3s"])?
            .ok()?;
        let list: serde_json::Value = serde_json::from_str(&output.stdout).context("etcdctl member list")?;
        let (mut voters, mut learners) = (Vec::new(), Vec::new());
        for member in list["members"].as_array().into_iter().flatten() {
            let name = member["name"].as_str().unwrap_or_default().to_owned();
            let learner = member["isLearner"].as_bool().unwrap_or_default();
            if learner {
                learners.push(name);
            } else {
                voters.push(name);
            }
        }
        voters.sort();
        learners.sort();
        Ok((voters, learners))
    }

    /// Waits until there are exactly `wanted` members, all started, voting and answering a linearizable read.
    /// Returns how long that took. The error quotes each host, because CI keeps little of a failure.
    pub fn wait_healthy(&self, wanted: usize, timeout: Duration) -> Result<Duration> {
        let waited = wait_until(&format!("{wanted} healthy members"), timeout, || {
            let on: Vec<&Host> = self.hosts().iter().filter(|host| host.is_on()).collect();
            let mut last = None;
            for host in &on {
                match self.members(host) {
                    Ok((voters, learners)) => {
                        if voters.len() != wanted
                            || !learners.is_empty()
                            || voters.iter().any(String::is_empty)
                        {
                            bail!("voters {voters:?}, learners {learners:?}");
                        }
                        let members: Vec<&Host> = self
                            .hosts()
                            .iter()
                            .filter(|host| voters.iter().any(|voter| voter == host.name()))
                            .collect();
                        self.etcdctl(&members, &["endpoint", "health", "--command-timeout=3s"])?
                            .ok()?;
                        return Ok(members.len() == wanted);
                    }
                    Err(error) => last = Some(error),
                }
            }
            Err(last.context("no host is on")?)
        });
        waited.map_err(|error| anyhow!("{error:#}\n{}", self.last_words()))
    }

    /// The last log lines of etcd and the agent of each host, and systemd's state of etcd: some lines per
    /// host. An etcd that is still starting is ended by SIGQUIT, on which Go prints what each goroutine waits
    /// for.
    fn last_words(&self) -> String {
        const SHOW: &str = r#"
            systemctl show etcd -p ActiveState,SubState,NRestarts,ExecMainStartTimestamp | paste -sd ' '
            journalctl -q -o short-precise -n 4 -u etcd-agent
            journalctl -q -o short-precise -n 4 -u etcd
            if systemctl show etcd -p ActiveState | grep -q activating; then
                systemctl kill -s QUIT etcd
                sleep 2
                journalctl -q -o cat -n 9000 -u etcd | awk '
                    function told() { if (state ~ /minutes/ && frames ~ /etcdserver/) print state frames }
                    /^goroutine / { told(); state = $0; sub(/.*\[/, "[", state); frames = "" }
                    /^(go[.]etcd|sync|net)/ { sub(/\([^()]*\)$/, ""); frames = frames " " $0 }
                    END { told() }' | sed 's,go.etcd.io/etcd/server/v3/,,g' | head -n 20
            fi"#;
        let mut text = String::new();
        for host in self.hosts().iter().filter(|host| host.is_on()) {
            let said = host
                .sh(SHOW)
                .map_or_else(|error| format!("{error:#}"), |output| output.stdout);
            for line in said.lines() {
                let line: String = line.chars().take(240).collect();
                let _ = writeln!(text, "  {}: {line}", host.name());
            }
        }
        text
    }

    /// The host whose etcd is the raft leader. Waits for an election to end.
    pub fn raft_leader(&self) -> Result<&Host> {
        wait_for("a raft leader", PATIENCE, || self.leader_now().map(Some))
    }

    /// The host whose etcd currently reports that it leads.
    fn leader_now(&self) -> Result<&Host> {
        let on: Vec<&Host> = self.hosts().iter().filter(|host| host.is_on()).collect();
        for host in on {
            let output = self.etcdctl(
                &[host],
                &["endpoint", "status", "-w", "json", "--command-timeout=3s"],
            )?;
            let Ok(list) = serde_json::from_str::<serde_json::Value>(&output.stdout) else {
                continue;
            };
            let status = &list[0]["Status"];
            if status["leader"].is_u64() && status["leader"] == status["header"]["member_id"] {
                return Ok(host);
            }
        }
        bail!("no host's etcd reports that it leads")
    }
}
