//! One host: state that survives on its disk, and state that a boot resets.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_agent::model::{
    Assignment, BackupId, DataState, Directives, ElectorRecord, Epoch, EtcdRun, EtcdVersion, GateState,
    Generation, InForce, Incarnation, MemberId, NodeName, RebootLocks, SpecRecord,
};

use super::broken::{Broken, Call, How};
use super::certificate_files::CertificateFiles;
use super::raft::{Dir, Server};
use super::space::Database;

/// The agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// It runs, as this run.
    Alive,
    /// It is started (again) at this time.
    Until(u64),
    /// It stays down until somebody starts it.
    Off,
}

/// The device that the data directory is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    /// The device that holds it.
    Own,
    /// The device of the empty directory that is visible while the other is not mounted.
    Bare,
}

/// A device that is not mounted yet.
#[derive(Debug, Clone)]
pub struct Late {
    /// When it is mounted.
    pub at: u64,
    /// The data directory on it.
    pub dir: Dir,
}

/// The state of `etcd.service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Inactive.
    Down,
    /// It has exited with an error.
    Failed,
    /// systemd starts it again at this time.
    Again(u64),
    /// The gate holds it back; no agent has answered since this time.
    Gate(u64),
    /// The process runs.
    Runs,
    /// Something other than the agent restarts it. The gate has held the stop back since this time.
    Leaves(u64),
    /// A person stops it: it is down at this time.
    Stopping(u64),
    /// A person has masked it.
    Masked,
}

/// One host.
// Each is an independent fact; systemd and the disk have as many.
#[allow(clippy::struct_excessive_bools)]
pub struct Host {
    /// Its name.
    pub name: NodeName,
    /// The version of the package of etcd.
    pub packaged: EtcdVersion,
    /// Whether it has power.
    pub up: bool,
    /// When power comes back, if it does.
    pub power_at: Option<u64>,
    /// Counts boots.
    pub boot: u64,
    /// Its agent.
    pub agent: AgentState,
    /// Counts runs of the agent; what an older run does has no effect.
    pub run: u64,
    /// The agent dies at this many crossings of a port from now.
    pub dies_in: Option<u32>,
    /// True while the agent cannot read its assignment.
    pub unreadable: bool,
    /// True while the data directory cannot be inspected.
    pub inspect_fails: bool,
    /// systemd refuses that many of the agent's next stops.
    pub stops_fail: u32,
    /// Since when nothing has kept the agent from stopping an etcd of an older epoch than it has learned.
    pub may_linger_from: u64,
    /// When a call of the agent, or a stop, last failed: the agent may wait before it retries.
    pub failed_at: Option<u64>,
    /// Its agent is not started before this time.
    pub agent_off_until: u64,
    /// Calls across its agent's ports that fail.
    pub broken_calls: Vec<Broken>,
    /// True while it is configured with another store than the others.
    pub differs: bool,
    /// True while its `cluster.nodes` lacks the newcomers.
    pub narrow: bool,
    /// Its certificate files.
    pub tls: CertificateFiles,
    /// A restore is typed as soon as its agent runs.
    pub asks_at_once: bool,
    /// Counts crossings of a port.
    pub crossings: u32,
    /// How often the agent's state was lost.
    pub reinstalled: u32,

    /// The latest of the incarnations of all its electors' memories.
    pub newest_incarnation: Option<Incarnation>,
    /// True while its elector's memory is dated before an earlier one: its clock was set back in between.
    pub outdated: bool,
    /// Since when its elector's memory has a trace of each epoch: it has received a report of it, or accepted
    /// a genesis of it.
    pub traces: BTreeMap<Epoch, u64>,
    /// Since when its elector's memory has each epoch as chosen.
    pub learned: BTreeMap<Epoch, u64>,
    /// The elector's memory.
    pub elector: Option<ElectorRecord>,
    /// The assignment.
    pub assignment: Option<Assignment>,
    /// The remembered state of the etcd process.
    pub etcd_run: EtcdRun,
    /// The orders of operators.
    pub directives: Directives,
    /// The reboot locks.
    pub reboot_locks: RebootLocks,
    /// The remembered wanted size.
    pub spec: SpecRecord,
    /// The record that the gate reads.
    pub gate: Option<GateState>,
    /// The settings that `apply` wrote.
    pub written: Option<Assignment>,
    /// The data directory.
    pub dir: Option<Dir>,
    /// The member as which etcd last ran under the agent's current memory.
    pub begun: Option<MemberId>,
    /// The device that holds the data directory and is not mounted yet.
    pub late: Option<Late>,
    /// The data directory was made in the empty directory, and nobody mounts over it.
    pub stays_bare: bool,
    /// The device of the data directory that the agent remembers.
    pub held_by: Option<Mount>,
    /// The last inspection of the data directory was refused.
    pub look_refused: bool,
    /// An older copy of the data directory.
    pub copy: Option<Dir>,
    /// Its database.
    pub db: Database,
    /// True if the data directory exists and is unusable.
    pub broken: bool,
    /// The archive.
    pub archive: Vec<Dir>,
    /// A restore staged next to the data directory.
    pub staged: Option<(Epoch, BackupId, Dir)>,
    /// Fetched backups.
    pub fetched: BTreeMap<BackupId, Arc<[u32]>>,

    /// The generation that the gate was cleared for in this boot.
    pub cleared: Option<Generation>,
    /// When the gate was cleared.
    pub cleared_at: u64,
    /// The settings that were read back in this boot.
    pub in_force: Option<InForce>,
    /// `etcd.service`.
    pub unit: Phase,
    /// True if it was started in this boot.
    pub activated: bool,
    /// True if the agent requested the last stop.
    pub agent_stopped: bool,
    /// True if its main process exited by itself.
    pub left: bool,
    /// The etcd process.
    pub server: Option<Server>,
    /// Counts the ends of etcd processes in this boot.
    pub ends: u64,
    /// The process ID of etcd.
    pub pid: u32,
    /// When etcd was restarted on purpose, until it is ready again.
    pub disturbed: Option<u64>,
    /// When an etcd last led here.
    pub led_at: Option<u64>,
    /// When an etcd last served here with a leader.
    pub served_at: Option<u64>,
    /// When its agent last ran.
    pub agent_at: Option<u64>,
}

impl Host {
    /// A host with nothing on it.
    pub fn new(name: NodeName, packaged: EtcdVersion) -> Self {
        Self {
            name,
            packaged,
            up: true,
            power_at: None,
            boot: 1,
            agent: AgentState::Off,
            run: 0,
            dies_in: None,
            unreadable: false,
            inspect_fails: false,
            stops_fail: 0,
            may_linger_from: 0,
            failed_at: None,
            agent_off_until: 0,
            broken_calls: Vec::new(),
            differs: false,
            narrow: false,
            tls: CertificateFiles::default(),
            asks_at_once: false,
            crossings: 0,
            reinstalled: 0,
            newest_incarnation: None,
            outdated: false,
            traces: BTreeMap::new(),
            learned: BTreeMap::new(),
            elector: None,
            assignment: None,
            etcd_run: EtcdRun::default(),
            directives: Directives::default(),
            reboot_locks: RebootLocks::default(),
            spec: SpecRecord::default(),
            gate: None,
            written: None,
            dir: None,
            begun: None,
            late: None,
            stays_bare: false,
            held_by: None,
            look_refused: false,
            copy: None,
            db: Database::default(),
            broken: false,
            archive: Vec::new(),
            staged: None,
            fetched: BTreeMap::new(),
            cleared: None,
            cleared_at: 0,
            in_force: None,
            unit: Phase::Down,
            activated: false,
            agent_stopped: false,
            left: false,
            server: None,
            ends: 0,
            pid: 0,
            disturbed: None,
            led_at: None,
            served_at: None,
            agent_at: None,
        }
    }

    /// The state that an inspection of the data directory finds.
    pub fn inspect(&self) -> DataState {
        let started = self
            .gate
            .as_ref()
            .filter(|g| g.started_once)
            .map(|g| (g.cluster_id, g.member_id));
        match &self.dir {
            None => DataState::Missing,
            // Half of the damaged directories still identify their member.
            Some(dir) if self.broken => DataState::Unusable {
                why: "it is damaged".to_owned(),
                member: dir
                    .member
                    .0
                    .is_multiple_of(2)
                    .then_some((dir.cluster, dir.member)),
            },
            Some(dir) if started == Some((dir.cluster, dir.member)) && dir.log.is_empty() => {
                DataState::Unusable {
                    why: "the WAL remembers nothing".to_owned(),
                    member: None,
                }
            }
            Some(dir) => DataState::Present {
                cluster_id: dir.cluster,
                member_id: dir.member,
            },
        }
    }

    /// A call of the agent, or a stop, fails.
    pub fn failed(&mut self, now: u64) {
        self.may_linger_from = now;
        self.failed_at = Some(now);
    }

    /// Stores this memory of its elector.
    pub fn remember(&mut self, record: &ElectorRecord, now: u64) {
        let note = |since: &mut BTreeMap<Epoch, u64>, epoch: Epoch| {
            since.retain(|known, _| *known <= epoch);
            since.entry(epoch).or_insert(now);
        };
        note(&mut self.traces, record.newest_epoch.max(record.voted()));
        let learned = record.open_epoch();
        if self.learned.keys().next_back().copied().unwrap_or_default() < learned {
            self.may_linger_from = now;
        }
        note(&mut self.learned, learned);
        let newest = self
            .newest_incarnation
            .take()
            .max(Some(record.incarnation.clone()));
        self.outdated = newest.as_ref() != Some(&record.incarnation);
        self.newest_incarnation = newest;
        self.elector = Some(record.clone());
    }

    /// The agent dies. Its remaining tasks have no effect.
    pub fn kill_agent(&mut self, next: AgentState) {
        self.agent = next;
        self.run += 1;
        self.dies_in = None;
    }

    /// The etcd process ends. True if one ran.
    pub fn end_server(&mut self) -> bool {
        let ran = self.server.take().is_some();
        self.ends += u64::from(ran);
        ran
    }

    /// Resets everything that does not survive a power loss.
    pub fn power_off(&mut self, back: Option<u64>) {
        self.up = false;
        self.power_at = back;
        self.end_server();
        self.ends = 0;
        self.unit = Phase::Down;
        self.activated = false;
        self.agent_stopped = false;
        self.left = false;
        self.cleared = None;
        self.in_force = None;
        self.kill_agent(AgentState::Off);
    }

    /// True while its agent runs.
    pub fn has_agent(&self) -> bool {
        self.up && self.agent == AgentState::Alive
    }

    /// How this call fails now, if it does.
    pub fn breaks(&mut self, call: Call) -> Option<How> {
        let at = self.broken_calls.iter().position(|broken| broken.call == call)?;
        let broken = self.broken_calls.get_mut(at)?;
        let how = broken.how;
        if let Some(times) = &mut broken.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.broken_calls.remove(at);
            }
        }
        Some(how)
    }
}
