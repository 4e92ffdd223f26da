//! etcd's own client, run outside the hosts.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use etcd_client::{AlarmAction, AlarmType, Client, Error};
use tokio::time::timeout;

use crate::cmd::{Cmd, Output};
use crate::host::Host;
use crate::lab::{Lab, PATIENCE};
use crate::load::in_outside;
use crate::wait::{wait_for, wait_until};

/// How long etcd may take to answer.
const CALL: Duration = Duration::from_secs(3);

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

    /// Calls etcd on `host` from the outside. Starts no program, so tests may do it in a loop.
    fn call<T, W>(&self, host: &Host, work: W) -> Result<T>
    where
        T: Send,
        W: AsyncFnOnce(&mut Client) -> Result<T, Error> + Send,
    {
        let target = self.target()?;
        let url = self.client_url(host);
        let answer = in_outside(&target, || async {
            let call = async {
                let mut client = target.connect(&url).await?;
                anyhow::Ok(work(&mut client).await?)
            };
            timeout(CALL, call).await?
        });
        answer.with_context(|| format!("a call to {url}"))
    }

    /// The members in a linearizable list through `host`: names of voters and of learners.
    pub fn members(&self, host: &Host) -> Result<(Vec<String>, Vec<String>)> {
        let list = self.call(host, async |client| {
            // The client lists only what this member knows. After a read through quorum it knows all changes so far.
            read(client).await?;
            client.member_list().await
        })?;
        let names = |learners: bool| {
            let these = list
                .members()
                .iter()
                .filter(|member| member.is_learner() == learners);
            let mut names: Vec<_> = these.map(|member| member.name().to_owned()).collect();
            names.sort();
            names
        };
        Ok((names(false), names(true)))
    }

    /// Fails unless etcd on `host` answers a linearizable read, and no alarm is raised: `etcdctl endpoint health`.
    fn check_health(&self, host: &Host) -> Result<()> {
        let alarms = self.call(host, async |client| {
            read(client).await?;
            client.alarm(AlarmAction::Get, AlarmType::None, None).await
        })?;
        match alarms.alarms().first() {
            None => Ok(()),
            Some(raised) => bail!("{} reports the alarm {:?}", host.name(), raised.alarm()),
        }
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
                        members.iter().try_for_each(|member| self.check_health(member))?;
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
                    function show() { if (state ~ /minutes/ && frames ~ /etcdserver/) print state frames }
                    /^goroutine / { show(); state = $0; sub(/.*\[/, "[", state); frames = "" }
                    /^(go[.]etcd|sync|net)/ { sub(/\([^()]*\)$/, ""); frames = frames " " $0 }
                    END { show() }' | sed 's,go.etcd.io/etcd/server/v3/,,g' | head -n 20
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
            let Ok(status) = self.call(host, async |client| client.status().await) else {
                continue;
            };
            let own = status.header().map(etcd_client::ResponseHeader::member_id);
            if own == Some(status.leader()) {
                return Ok(host);
            }
        }
        bail!("no host's etcd reports that it leads")
    }
}

/// A linearizable read. A refusal for want of permission is an answer too.
async fn read(client: &mut Client) -> Result<(), Error> {
    match client.get("health", None).await {
        Err(Error::GRpcStatus(status)) if status.message().contains("permission denied") => Ok(()),
        other => other.map(|_| ()),
    }
}
