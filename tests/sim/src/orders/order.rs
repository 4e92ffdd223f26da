//! An order and its progress.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::model::{BackupId, ClusterId, DirectiveChange, Epoch, NodeName};

/// The command that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// `restore` of that backup, above the newest epoch that the agent knew, or above the newest of all if
    /// its memory was new.
    Restore(BackupId, Epoch),
    /// `bootstrap --without`.
    Bootstrap(NodeName),
    /// `epoch confirm`: the genesis with that token.
    Confirm(Epoch, String),
    /// `backup now`, and the number of backups that had been committed before.
    Backup(usize),
    /// `move-leader`.
    MoveLeader(Option<NodeName>),
    /// `pause`, `resume`, `restart`, `member remove`, `member add`, `reboot-lock release NODE`, `upgrade`.
    Change(DirectiveChange),
    /// `reboot-lock acquire`.
    RebootLock,
    /// `spec set size=`.
    Size(usize),
}

/// The progress of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// This run of the agent has it as the request with this number.
    Asked(u64, u64),
    /// Its agent died. The person types the restore again.
    Forgotten,
    /// It is in the register.
    Ordered,
    /// This run of the agent is writing it to the store.
    Sent(u64),
    /// It has taken effect.
    Done,
    /// It was refused, for this reason.
    Refused(String),
    /// It need not take effect, for this reason.
    Void(&'static str),
}

/// One order.
#[derive(Debug, Clone)]
pub struct Order {
    /// When it was typed, in milliseconds.
    pub at: u64,
    /// The host on which it was typed.
    pub host: usize,
    /// The command that was typed.
    pub what: What,
    /// Its progress.
    pub state: State,
    /// How many writes each etcd cluster had acknowledged before.
    pub(super) acknowledged: BTreeMap<ClusterId, usize>,
    /// How often it was typed.
    pub(super) tries: u32,
    /// The process ID of each host's etcd at that time, if one ran.
    pub(super) processes: Vec<Option<u32>>,
    /// How often each agent had lost its memory before.
    pub(super) memories: Vec<u32>,
}

/// All orders of one simulation.
#[derive(Debug, Default)]
pub struct Orders {
    /// In the order in which they were typed.
    pub all: Vec<Order>,
    /// Which orders each version of the register contains.
    pub(super) lineage: BTreeMap<(u64, Option<NodeName>), BTreeSet<usize>>,
}

impl Order {
    /// True while neither its effect nor a refusal was seen.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Done | State::Refused(_) | State::Void(_))
    }

    /// A short name of the command and of how it ended.
    pub fn name(&self) -> String {
        let what = match &self.what {
            What::Restore(..) => "restore",
            What::Bootstrap(_) => "bootstrap",
            What::Confirm(..) => "confirm",
            What::Backup(_) => "backup",
            What::MoveLeader(_) => "move leader",
            What::Size(_) => "size",
            What::RebootLock => "reboot lock",
            What::Change(DirectiveChange::Pause) => "pause",
            What::Change(DirectiveChange::Resume) => "resume",
            What::Change(DirectiveChange::Remove { .. }) => "out",
            What::Change(DirectiveChange::Add { .. }) => "in",
            What::Change(DirectiveChange::Restart { .. }) => "restart",
            What::Change(DirectiveChange::CancelRestart) => "cancel restart",
            What::Change(DirectiveChange::Defrag { .. }) => "defrag",
            What::Change(DirectiveChange::CancelDefrag) => "cancel defrag",
            What::Change(DirectiveChange::Upgrade { .. }) => "upgrade",
            What::Change(DirectiveChange::Downgrade { .. }) => "downgrade",
            What::Change(DirectiveChange::CancelUpgrade) => "cancel upgrade",
            What::Change(DirectiveChange::FollowPackage) => "follow package",
            What::Change(DirectiveChange::ReleaseRebootLock { .. }) => "release reboot lock",
        };
        let end = match &self.state {
            State::Done => "done",
            State::Refused(_) => "refused",
            State::Void(_) => "void",
            _ => "open",
        };
        format!("{what} {end}")
    }
}

impl Orders {
    /// The open orders, as text for people.
    pub fn open(&self) -> Vec<String> {
        let open = self.all.iter().filter(|order| order.is_open());
        open.map(|order| {
            format!(
                "{:?} typed at n{} is {:?} since {} ms",
                order.what,
                order.host + 1,
                order.state,
                order.at
            )
        })
        .collect()
    }

    /// True while a restore is open.
    pub fn restores(&self) -> bool {
        let restore = |order: &&Order| matches!(order.what, What::Restore(..));
        self.all.iter().filter(restore).any(Order::is_open)
    }
}
