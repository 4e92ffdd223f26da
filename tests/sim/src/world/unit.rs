//! `etcd.service` and the gate in front of it, as systemd runs them.

use std::time::Duration;

use etcd_agent::model::{
    ActiveState, Assignment, ClusterId, DataState, InitialState, LoadState, MemberId, UnitState,
    cluster_id_of, member_id_of,
};
use etcd_agent::plan::start::{Answer, Known, Log, Step, decide};

use super::check::HEARD_OF_MS;
use super::raft::{Config, Dir, Server};
use super::{Phase, Plane, World};

/// systemd's `RestartSec=`.
const RESTART_MS: u64 = 100;

/// How long etcd takes to leave when a person stops it.
const STOPPING_MS: u64 = 250;

/// A restart that takes longer no longer counts for rule 4: the planner grants no other one before that
/// (`plan/grant.rs`).
const RESTARTING_MS: u64 = 60_000;

/// The state of the gate's request to its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It was not asked yet.
    NotYet,
    /// The agent runs and cannot answer.
    Silent,
    /// Whether etcd may start, and what the agent waits for if not.
    Says(bool, String),
}

impl World {
    /// The state of a host's `etcd.service`.
    pub fn unit_state(&self, host: usize) -> UnitState {
        let h = &self.hosts[host];
        let ready = h.server.as_ref().is_some_and(|s| s.ready);
        let (active, sub, result) = match h.unit {
            Phase::Down | Phase::Masked => (ActiveState::Inactive, "dead", "success"),
            Phase::Failed => (ActiveState::Failed, "failed", "exit-code"),
            Phase::Again(_) => (ActiveState::Activating, "auto-restart", "signal"),
            Phase::Gate(_) => (ActiveState::Activating, "start-pre", "success"),
            Phase::Stopping(_) => (ActiveState::Deactivating, "stop-sigterm", "success"),
            Phase::Leaves(_) => (ActiveState::Deactivating, "stop", "success"),
            Phase::Runs if ready => (ActiveState::Active, "running", "success"),
            Phase::Runs => (ActiveState::Activating, "start", "success"),
        };
        let masked = h.unit == Phase::Masked;
        let by_a_person = h.unit == Phase::Down && h.activated && !h.agent_stopped && !h.left;
        UnitState {
            active,
            sub: sub.to_owned(),
            result: result.to_owned(),
            main_pid: if h.server.is_some() || matches!(h.unit, Phase::Stopping(_)) {
                h.pid
            } else {
                0
            },
            load: if masked {
                LoadState::Masked
            } else {
                LoadState::Loaded
            },
            held: masked || by_a_person,
            ended_us: if h.server.is_some() { 0 } else { h.ends },
        }
    }

    /// A person types `systemctl start etcd`; a stop that is in progress ends first.
    pub fn start_by_person(&mut self, host: usize) {
        if let Phase::Stopping(at) = self.hosts[host].unit {
            self.hosts[host].unit = Phase::Again(at);
        }
        self.start_unit(host);
    }

    /// A person types `systemctl stop etcd`.
    pub fn stop_by_person(&mut self, host: usize) {
        let ran = self.hosts[host].server.is_some();
        self.stop_unit(host, false);
        if ran {
            self.hosts[host].unit = Phase::Stopping(self.now + STOPPING_MS);
        }
    }

    /// Begins a start of `etcd.service`. Without settings from an agent there is nothing to start.
    pub fn start_unit(&mut self, host: usize) {
        let now = self.now;
        let h = &mut self.hosts[host];
        if h.written.is_none() {
            // The distribution's own etcd would start, on other data.
            h.activated = false;
        }
        let takes_it = !matches!(
            h.unit,
            Phase::Runs | Phase::Gate(_) | Phase::Masked | Phase::Stopping(_) | Phase::Leaves(_)
        );
        if !h.up || h.written.is_none() || !takes_it {
            return;
        }
        h.unit = Phase::Gate(now);
        h.activated = true;
        h.agent_stopped = false;
        h.left = false;
        self.look_at_gate(host, Asked::NotYet);
    }

    /// Restarts `etcd.service` for its agent.
    pub fn restart_unit(&mut self, host: usize) {
        self.check_alone_down(host);
        self.check_files(host, "restarts etcd");
        let now = self.now;
        self.tell(|w| format!("{} restarts etcd", w.hosts[host].name));
        self.hosts[host].disturbed = Some(now);
        self.stop_unit(host, true);
        self.start_unit(host);
    }

    /// A package or a person restarts `etcd.service`. The gate first asks for leave.
    pub fn restart_by_others(&mut self, host: usize) {
        if self.hosts[host].unit == Phase::Runs && self.hosts[host].written.is_some() {
            self.hosts[host].unit = Phase::Leaves(self.now);
        }
    }

    /// The gate lets such a stop go on: with leave, or because it may wait no longer.
    pub fn leaves(&mut self, host: usize, leave: Option<&str>) {
        self.tell(|w| {
            let name = &w.hosts[host].name;
            leave.map_or_else(
                || format!("{name} restarts etcd without leave"),
                |why| format!("{name} restarts etcd with leave: {why}"),
            )
        });
        // Without a leader or an answer of etcd nothing is lost by a stop.
        let for_it = ["granted it", "depends on it", "does not come back by itself"];
        if leave.is_some_and(|why| for_it.iter().any(|end| why.ends_with(end))) {
            self.check_files(host, "lets etcd stop");
        }
        if leave.is_some_and(|why| why.ends_with("granted it")) {
            self.saw("event", "a restart by others has leave");
            self.check_alone_down(host);
            self.hosts[host].disturbed = Some(self.now);
        }
        let again = self.now + RESTART_MS;
        let h = &mut self.hosts[host];
        h.end_server();
        h.unit = Phase::Again(again);
    }

    /// Rule 4: no two members of one cluster are down by leave at a time.
    pub(super) fn check_alone_down(&mut self, host: usize) {
        let now = self.now;
        let cluster = |w: &Self, h: usize| w.hosts[h].dir.as_ref().map(|dir| dir.cluster);
        let other = (0..self.hosts.len()).find(|other| {
            *other != host
                && cluster(self, *other) == cluster(self, host)
                && self.hosts[*other]
                    .dir
                    .as_ref()
                    .is_some_and(|dir| self.is_listed(dir.cluster, dir.member))
                && (self.hosts[*other].db.defrag_until.is_some_and(|at| at > now)
                    || self.hosts[*other]
                        .disturbed
                        .is_some_and(|at| now.saturating_sub(at) < RESTARTING_MS)
                        && self.hosts[*other].server.as_ref().is_none_or(|s| !s.ready))
        });
        if let Some(other) = other {
            let text = format!(
                "{} goes down while {} is",
                self.hosts[host].name, self.hosts[other].name
            );
            self.violate(4, text);
        }
    }

    /// False if the cluster's leader does not list the member. Without a leader, if no other member has it in its data.
    pub(super) fn is_listed(&self, cluster: ClusterId, member: MemberId) -> bool {
        let hosts = self.hosts.iter();
        let of_cluster = hosts.filter_map(|h| {
            let dir = h.dir.as_ref().filter(|dir| dir.cluster == cluster)?;
            Some((dir, h.server.as_ref()))
        });
        let mut servers = of_cluster.clone().filter_map(|(_, server)| server);
        if let Some(leader) = servers.find(|server| server.leads) {
            return leader.config.members.contains_key(&member);
        }
        let mut others = of_cluster.filter(|(dir, _)| dir.member != member).peekable();
        others.peek().is_none() || others.any(|(dir, _)| Config::of(dir).members.contains_key(&member))
    }

    /// Stops `etcd.service`.
    pub fn stop_unit(&mut self, host: usize, by_agent: bool) {
        let h = &mut self.hosts[host];
        h.end_server();
        h.left = false;
        h.agent_stopped = by_agent;
        if h.unit != Phase::Masked {
            h.unit = Phase::Down;
        }
    }

    /// The etcd process is killed by a signal.
    pub fn kill_etcd(&mut self, host: usize) {
        let again = self.now + RESTART_MS;
        let h = &mut self.hosts[host];
        if h.end_server() {
            h.unit = Phase::Again(again);
        }
    }

    /// Advances the units. The gate asks its agent only in `driver`, which has the agents.
    pub(super) fn units(&mut self) {
        for host in 0..self.hosts.len() {
            if let Phase::Stopping(at) = self.hosts[host].unit
                && at <= self.now
            {
                self.hosts[host].unit = Phase::Down;
            }
            if self.hosts[host].server.as_ref().is_some_and(|s| s.ready) {
                self.hosts[host].disturbed = None;
            }
            if let Phase::Again(at) = self.hosts[host].unit
                && at <= self.now
            {
                let now = self.now;
                self.hosts[host].unit = Phase::Gate(now);
                self.look_at_gate(host, Asked::NotYet);
            }
            if self.hosts[host].has_agent() {
                self.hosts[host].agent_at = Some(self.now);
            }
            if self.hosts[host].server.is_some() {
                let now = self.now;
                let h = &mut self.hosts[host];
                if let Some(server) = &h.server {
                    h.led_at = server.leads.then_some(now).or(h.led_at);
                    h.served_at = (server.ready && server.leader.is_some())
                        .then_some(now)
                        .or(h.served_at);
                }
                self.check_lingering(host);
            }
            let Some(code) = self.hosts[host].server.as_ref().and_then(|s| s.exit) else {
                continue;
            };
            self.tell(|w| format!("etcd of {} exits with {code}", w.hosts[host].name));
            let h = &mut self.hosts[host];
            h.end_server();
            h.left = true;
            h.unit = if code == 0 { Phase::Down } else { Phase::Failed };
        }
        self.raise_versions();
        self.end_defrags();
    }

    /// The production gate checks a held start. True if the agent has to be asked.
    pub fn look_at_gate(&mut self, host: usize, agent: Asked) -> bool {
        let Phase::Gate(last_answer) = self.hosts[host].unit else {
            return false;
        };
        let (asked, says_nothing) = (agent != Asked::NotYet, agent == Asked::Silent);
        let h = &mut self.hosts[host];
        let answer = match agent {
            Asked::NotYet | Asked::Silent => Answer::NotYet(String::new()),
            Asked::Says(clear, text) => {
                h.unit = Phase::Gate(self.now);
                if clear {
                    Answer::Clear
                } else {
                    Answer::NotYet(text)
                }
            }
        };
        let step = self.decide_gate(host, answer);
        if matches!(step, Step::Pass(_)) {
            let h = &self.hosts[host];
            let cleared = h
                .gate
                .as_ref()
                .is_some_and(|gate| h.cleared >= Some(gate.generation));
            let vouched = if cleared {
                h.cleared_at.saturating_sub(HEARD_OF_MS)
            } else {
                self.now
            };
            self.run_etcd(host, vouched);
            return false;
        }
        self.note_held(host);
        if !says_nothing && (asked || self.hosts[host].has_agent()) {
            return !asked;
        }
        let silence = Duration::from_millis(self.now.saturating_sub(last_answer));
        if matches!(self.decide_gate(host, Answer::Silent(silence)), Step::Pass(_)) {
            self.tell(|w| format!("gate of {} decides alone", w.hosts[host].name));
            self.saw("event", "a gate decides alone");
            self.check_alone(host);
            self.run_etcd(host, self.now);
        }
        false
    }

    fn decide_gate(&self, host: usize, agent: Answer) -> Step {
        let h = &self.hosts[host];
        let known = Known {
            gate: Ok(h.gate.clone()),
            assigned: h.assignment.is_some(),
            cleared: h.cleared,
            initial: h.written.as_ref().map(Assignment::initial_settings),
            overridden: false,
            agent,
        };
        decide(&known, |_| match h.inspect() {
            DataState::Present {
                cluster_id,
                member_id,
            } => Ok(Some(Log {
                cluster_id,
                member_id,
                remembers: true,
            })),
            DataState::Missing => Ok(None),
            DataState::Unusable { why, .. } => Err(why),
        })
    }

    /// Starts the process, on the existing data or as its settings say.
    fn run_etcd(&mut self, host: usize, vouched: u64) {
        self.check_start(host);
        let patience = self.rng.range(1000, 2000);
        let (now, hosts) = (self.now, self.hosts.len());
        if self.hosts[host].written.is_none() {
            self.hosts[host].unit = Phase::Failed;
            return;
        }
        if self.hosts[host].dir.is_none() {
            let Some(mut dir) = self.first_dir(host) else {
                self.tell(|w| format!("etcd of {} cannot start", w.hosts[host].name));
                self.hosts[host].unit = Phase::Failed;
                return;
            };
            dir.differs = self.leaders_difference(dir.cluster);
            self.note_begun_again(host, &dir);
            let meant = self.hosts[host]
                .written
                .as_ref()
                .map(|settings| settings.cluster_id);
            if meant != Some(dir.cluster) {
                // Its agent identifies that data only once etcd has not answered for a while.
                self.hosts[host].may_linger_from = self.now;
            }
            self.hosts[host].dir = Some(dir);
        }
        let h = &mut self.hosts[host];
        let Some(dir) = h.dir.as_ref().filter(|_| !h.broken) else {
            h.unit = Phase::Failed;
            return;
        };
        let cluster = dir.cluster;
        if !self.starts(host, cluster) {
            self.tell(|w| {
                let version = w.hosts[host].etcd_version();
                format!("etcd {version} of {} ends with exit code 1", w.hosts[host].name)
            });
            self.hosts[host].unit = Phase::Failed;
            return;
        }
        let h = &mut self.hosts[host];
        let version = h.etcd_version();
        let Some(dir) = &h.dir else { return };
        h.begun = Some(dir.member);
        h.server = Some(Server {
            trusts: h.tls.authorities,
            ..Server::new(dir, hosts, now, patience, vouched, version)
        });
        h.unit = Phase::Runs;
        h.pid += 1;
        let (member, cluster, log) = (dir.member, dir.cluster, dir.log.len());
        self.tell(|w| {
            format!(
                "etcd {version} of {} starts as {member} of {cluster} with {log} entries",
                w.hosts[host].name
            )
        });
    }

    /// The data that etcd makes in an empty data directory (ADR 5: `existing` takes the IDs from its peers
    /// and starts with an empty log).
    fn first_dir(&mut self, host: usize) -> Option<Dir> {
        let settings = self.hosts[host].written.clone()?;
        let own_url = Self::peer_url(host);
        let others: Vec<usize> = (0..self.hosts.len())
            .filter(|peer| {
                *peer != host
                    && self.hosts[*peer].server.is_some()
                    && self.links.both(Plane::Etcd, host, *peer)
            })
            .collect();
        if settings.initial_state == InitialState::New {
            let cluster = cluster_id_of(&settings.initial_cluster, &settings.token);
            let member = member_id_of(&[own_url], &settings.token);
            let started = |peer: &usize| {
                let theirs = self.hosts[*peer]
                    .dir
                    .as_ref()
                    .is_some_and(|d| d.cluster == cluster);
                let published = self.hosts[*peer].server.as_ref().is_some_and(|s| {
                    let info = s.config.members.get(&member);
                    info.is_some_and(|info| info.published)
                });
                theirs && published
            };
            if others.iter().any(started) {
                return None;
            }
            let voters = settings
                .initial_cluster
                .values()
                .filter_map(|urls| {
                    let host = self.host_at(urls.first()?)?;
                    Some((member_id_of(urls, &settings.token), host))
                })
                .collect();
            return Some(Dir::founded(cluster, member, &voters, Self::no_writes()));
        }
        let listed: Vec<usize> = settings
            .initial_cluster
            .values()
            .filter_map(|urls| self.host_at(urls.first()?))
            .collect();
        others
            .iter()
            .filter(|peer| listed.contains(peer))
            .find_map(|peer| {
                let server = self.hosts[*peer].server.as_ref()?;
                let theirs: Vec<usize> = server.config.members.values().map(|info| info.host).collect();
                let same = theirs.len() == listed.len() && theirs.iter().all(|h| listed.contains(h));
                let member: MemberId = server
                    .config
                    .members
                    .iter()
                    .find(|(_, info)| info.host == host)
                    .map(|(id, _)| *id)?;
                let cluster = self.hosts[*peer].dir.as_ref()?.cluster;
                same.then(|| Dir::empty(cluster, member))
            })
    }
}
