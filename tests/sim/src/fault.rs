//! The faults, and the orders that an operator can type.

use crate::world::{Broken, Weather};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// One direction between two hosts is cut, for agents, for etcd, or for both.
    Cut(usize, usize, Option<bool>),
    /// A host is cut off from all others.
    Isolate(usize),
    /// The network is repaired.
    Mend,
    /// Of a hundred messages, this many are lost, this many arrive twice, and each takes up to this many
    /// milliseconds.
    Noise(u64, u64, u64),
    /// The agent dies at this many crossings of a port from now.
    AgentDies(usize, u32),
    /// The agent is stopped, for this many milliseconds.
    AgentStops(usize, u64),
    /// The agent's state is lost.
    Reinstall(usize),
    /// The agent's state is lost. The first order to the new agent is a restore.
    Anew(usize),
    /// The data directory cannot be inspected, until people repair it.
    InspectFails(usize),
    /// The data directory holds data of an unknown cluster.
    Foreign(usize),
    /// systemd refuses that many of the agent's next stops of etcd.
    StopsFail(usize, u32),
    /// The host loses power, for this many milliseconds.
    PowerOff(usize, u64),
    /// The host loses power for a moment. The device of its data directory is mounted only after this many
    /// milliseconds.
    LateMount(usize, u64),
    /// etcd is killed.
    KillEtcd(usize),
    /// The data directory is emptied.
    Wipe(usize),
    /// The host has got a new address, and its member is listed with the former one.
    NewAddress(usize),
    /// The data directory becomes unusable.
    Corrupt(usize),
    /// A copy of the data directory is made, for `SetBack`.
    Copy(usize),
    /// The data directory is set back to the copy.
    SetBack(usize),
    /// The clock is off by this many milliseconds from now on.
    Clock(usize, i64),
    /// The behaviour of the store from now on.
    Store(Weather),
    /// The store is emptied.
    EmptyStore,
    /// Somebody deletes all backups, and nothing else in the store.
    DeleteBackups,
    /// Typed here: keep the oldest backup that is not kept yet.
    KeepBackup(usize),
    /// Somebody writes a smaller size directly into the store, without an agent.
    StoreShrinks(usize),
    /// Somebody forges the record of an epoch in the store that is this far ahead of the newest one, until `Mend`.
    ForgesRecord(u64),
    /// The agent and the etcd of this host lie in their answers and pushes, until people repair the host.
    Lies(usize),
    /// Typed here: restore the newest backup.
    Restore(usize),
    /// Typed here: form the first cluster without that host, which is permanently lost.
    Without(usize, usize),
    /// Typed here: take a backup now.
    Backup(usize),
    /// Typed here: `systemctl stop etcd`.
    Stop(usize),
    /// Typed here: `systemctl start etcd`.
    Start(usize),
    /// Typed here: `systemctl mask etcd`.
    Mask(usize),
    /// Typed here: restart etcd on all nodes, one after the other.
    RestartAll(usize),
    /// Typed here: restart etcd on that node.
    RestartOne(usize, usize),
    /// A package restarts etcd here.
    RestartByOthers(usize),
    /// Typed here: pause.
    Pause(usize),
    /// Typed here: resume.
    Resume(usize),
    /// Most of the file of this host's database becomes free.
    Fragments(usize),
    /// The data of the member here begins to differ from the others'.
    Differs(usize),
    /// Clients write until etcd has no space.
    FillsUp,
    /// Typed here: defragment etcd on all nodes, one after the other.
    DefragAll(usize),
    /// Typed here: cancel the rest of a defragmentation.
    CancelDefrag(usize),
    /// Typed here: cancel the rest of a restart.
    CancelRestart(usize),
    /// Typed here: upgrade to the version with this number in `VERSIONS`.
    Upgrade(usize, usize),
    /// Typed here: move to the version with this number in `VERSIONS`.
    Move(usize, usize),
    /// Typed here: `move --cancel`, also while another person moves the cluster.
    CancelMove(usize),
    /// Typed here: cancel the upgrade.
    CancelUpgrade(usize),
    /// Typed here: run the package's etcd again.
    FollowPackage(usize),
    /// Typed here: downgrade to the version with this number in `VERSIONS`.
    Downgrade(usize, usize),
    /// A package of the version with this number in `VERSIONS` replaces etcd on all hosts, and restarts
    /// nothing.
    InstallEtcd(usize),
    /// This host reports that an upgrade of etcd was cancelled, and that it runs the version of before, until
    /// `Mend`.
    ForgesCancel(usize),
    /// The version with this number in `VERSIONS` starts on no host, until people repair it.
    BreakVersion(usize),
    /// Somebody installs certificate files here with which etcd cannot work, until `Mend`.
    BadFiles(usize),
    /// Somebody installs other authorities for etcd here.
    NewAuthorities(usize),
    /// Typed here: set the number of members.
    SetSize(usize, usize),
    /// Typed here: order that node out.
    Out(usize, usize),
    /// Typed here: let that node be a member again.
    In(usize, usize),
    /// Typed here: move the leader to that node, or to any other.
    MoveLeader(usize, Option<usize>),
    /// Asked for here: the reboot lock.
    RebootLock(usize),
    /// The host reboots if it holds the lock, and is off for this many milliseconds.
    Reboot(usize, u64),
    /// The host releases the reboot lock.
    ReleaseLock(usize),
    /// Typed here: release the reboot lock of that node.
    ReleaseLockOf(usize, usize),
    /// The agent is off for this many milliseconds, even when its host boots meanwhile.
    AgentOff(usize, u64),
    /// All hosts lose power. Each gets it back within this many milliseconds.
    Blackout(u64),
    /// The store refuses this host's credentials.
    StoreRefuses(usize),
    /// The agent is configured with another store, which is empty at first, until `Mend`.
    StoreDiffers(usize),
    /// Calls of this host's agent fail.
    Breaks(usize, Broken),
    /// People add the newcomers to `cluster.nodes` of this host.
    Widen(usize),
}

impl Fault {
    /// True for a fault that takes something away, false for orders and repairs.
    pub fn is_hard(&self) -> bool {
        matches!(
            self,
            Self::Cut(..)
                | Self::Isolate(_)
                | Self::AgentDies(..)
                | Self::AgentStops(..)
                | Self::AgentOff(..)
                | Self::Reinstall(_)
                | Self::Anew(_)
                | Self::PowerOff(..)
                | Self::LateMount(..)
                | Self::Blackout(_)
                | Self::KillEtcd(_)
                | Self::Wipe(_)
                | Self::Corrupt(_)
                | Self::SetBack(_)
                | Self::Foreign(_)
                | Self::InspectFails(_)
                | Self::StopsFail(..)
                | Self::Breaks(..)
                | Self::StoreRefuses(_)
                | Self::StoreDiffers(_)
                | Self::Store(Weather::Down | Weather::Slow | Weather::Mute)
        )
    }
}
