//! Which etcd runs on this node: the version that operators have selected for all nodes. A node takes it over
//! under a grant to restart, so that members are upgraded one at a time, the raft leader last (rule 4). Each
//! node checks the step itself: one node's report of an order must not stop another node's etcd (rule 10).

use std::collections::BTreeMap;
use std::path::Path;

use super::context::Context;
use super::orders;
use super::tls_files::StopWish;
use crate::model::{
    EtcdBinaries, EtcdSelection, EtcdStatus, EtcdVersion, Fact, Memory, NodeName, NodeStatus, Observation,
    ReasonCode, RestartWish, SteadyMs, V2Names, V2View,
};

/// What decides whether this node's etcd is to be replaced by another version.
#[derive(Debug, Clone, Copy)]
pub struct EtcdSeen<'a> {
    /// This node.
    pub node: &'a NodeName,
    /// What operators have selected.
    pub selected: Option<&'a EtcdSelection>,
    /// The version of this node's assignment.
    pub assigned: Option<EtcdVersion>,
    /// The etcd that runs.
    pub etcd: Option<&'a EtcdStatus>,
    /// True if that etcd may have been started from another file than the binary of `etcd.service` that is there now.
    pub replaced: bool,
    /// Whether its log holds entries of v2.
    pub v2_entries: Option<bool>,
    /// What its disk says of keys of the v2 API.
    pub v2: &'a V2View,
    /// The time of the observation.
    pub now: SteadyMs,
    /// Which etcds can run here.
    pub binaries: &'a EtcdBinaries,
    /// `etcd.versions_dir`.
    pub versions_dir: &'a Path,
    /// The other nodes.
    pub peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
}

impl<'a> EtcdSeen<'a> {
    /// The same if etcd's log and the disk, where they were not read yet, turn out to hold nothing of v2.
    fn once_read(self, clean: &'a V2View) -> Self {
        Self {
            v2_entries: self.v2_entries.or(Some(false)),
            v2: if self.v2.is_unread(self.now) {
                clean
            } else {
                self.v2
            },
            ..self
        }
    }
}

/// Why this node needs a restart with another version of etcd; `None` if it does not.
///
/// # Errors
/// Why the selected version is not followed here, for people.
pub fn wants_version(seen: &EtcdSeen<'_>) -> Result<Option<String>, String> {
    let Some(etcd) = seen.etcd else {
        return Ok(None);
    };
    let running = EtcdVersion::reported(&etcd.version);
    let base_is_selected = seen.selected.is_none_or(|selected| selected.version.is_none());
    // Where it was selected again, another etcd may still run although it is assigned.
    let selected_again = seen.selected.is_some() && !seen.replaced;
    if base_is_selected && seen.assigned.is_none() && !selected_again {
        let wish = running.map_or(Ok(None), |running| wants_base(seen, etcd, running));
        return wish.map_err(|trouble| trouble.why);
    }
    let Some(selected) = seen.selected else {
        return Ok(None);
    };
    let target = selected.version.or(seen.binaries.base);
    let assigned = seen.assigned == selected.version;
    if assigned && target.is_none_or(|target| Some(target) == running) || is_paused(seen) {
        return Ok(None);
    }
    let running = running.ok_or_else(|| format!("etcd here reports the version {:?}", etcd.version))?;
    if let Some(version) = selected.version {
        is_available(seen, version)?;
    }
    let older = target.is_none_or(|target| target < running);
    if older && selected.cancelled {
        goes_back(seen, etcd, running, selected.version)?;
    } else if selected.version.is_none() {
        let upward = |newer| own_objection(seen, running, newer);
        running
            .package_objection(seen.binaries.base, upward)
            .map_or(Ok(()), Err)?;
    } else if let Some(target) = target {
        let down = older && selected.downgrade;
        let why = if down {
            running.downgrade_objection(target)
        } else {
            own_objection(seen, running, target)
        };
        if let Some(why) = why {
            return Err(why);
        }
        // etcd converts its data before a downgrade.
        if down && opens(Some(target), etcd.stored()).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(match selected.version {
        Some(version) => format!("etcd {running} runs, and {version} is selected"),
        None => format!("etcd {running} runs, and the binary of etcd.service is selected again"),
    }))
}

/// Why a member must not be upgraded directly to this version.
pub(super) fn step_objection(
    running: EtcdVersion,
    to: EtcdVersion,
    v2_entries: Option<bool>,
) -> Option<String> {
    running
        .upgrade_objection(to)
        .or_else(|| running.log_objection(to, v2_entries))
}

/// Why the etcd here must not be upgraded directly to this version. Of the keys of v2, only this node's own disk
/// counts: it decides whether its etcd starts, and no other node holds this one back (rule 10).
fn own_objection(seen: &EtcdSeen<'_>, running: EtcdVersion, to: EtcdVersion) -> Option<String> {
    step_objection(running, to, seen.v2_entries).or_else(|| seen.v2.objection(seen.now, running, to))
}

/// True if this node is to step to an etcd without the v2 API, or its next start takes one, and only its disk can
/// object. The disk is read only then.
pub fn disk_decides(observation: &Observation) -> bool {
    needs_disk(&Context::new(observation, &Memory::default()))
}

/// As [`disk_decides`]. No step is taken during a pause, but etcd may be stopped then.
pub(super) fn needs_disk(cx: &Context<'_>) -> bool {
    if cx.obs.assignment.as_ref().is_none_or(|assigned| assigned.removed) {
        return false;
    }
    let none = EtcdBinaries::default();
    let seen = seen_by(cx, &none);
    let unread = V2View::default();
    let unread = EtcdSeen { v2: &unread, ..seen };
    let clean = clean_disk(seen.now);
    let clean = EtcdSeen { v2: &clean, ..seen };
    let trouble = |seen| binary_trouble(seen, cx.obs.base.unknown);
    let steps = orders::paused(cx).is_none()
        && wants_with_clean_disk(&seen).is_ok()
        && wants_version(&unread).is_err();
    steps || trouble(&clean).is_none() && trouble(&unread).is_some()
}

/// [`wants_version`] if the disk holds no keys of the v2 API.
fn wants_with_clean_disk(seen: &EtcdSeen<'_>) -> Result<Option<String>, String> {
    let clean = clean_disk(seen.now);
    wants_version(&EtcdSeen { v2: &clean, ..*seen })
}

/// A disk that was read just now and holds no keys of the v2 API.
fn clean_disk(now: SteadyMs) -> V2View {
    V2View {
        found: Fact::Known(V2Names::default()),
        at: now,
    }
}

/// After an error of [`wants_version`]: why this node is to be restarted with another version once its disk was read
/// for keys of the v2 API; `None` if the reading is not all that is missing.
pub fn wants_after_reading(seen: &EtcdSeen<'_>) -> Option<String> {
    if !seen.v2.is_unread(seen.now) {
        return None;
    }
    wants_with_clean_disk(seen).ok().flatten()
}

/// Why this node needs a restart because a package has replaced the etcd that runs. A file with the same
/// version in it waits for the next restart.
fn wants_base(
    seen: &EtcdSeen<'_>,
    etcd: &EtcdStatus,
    running: EtcdVersion,
) -> Result<Option<String>, BinaryTrouble> {
    let Some(base) = seen
        .binaries
        .base
        .filter(|base| seen.replaced && *base != running)
    else {
        return Ok(None);
    };
    let replaced = format!("etcd {running} runs, and its binary was replaced by {base}");
    let objection = if base > running {
        own_objection(seen, running, base)
    } else {
        opens(Some(base), etcd.stored()).err()
    };
    let Some(objection) = objection else {
        return Ok(Some(replaced));
    };
    let reading =
        base > running && own_objection(&seen.once_read(&clean_disk(seen.now)), running, base).is_none();
    let why = format!("{replaced}, which the next start would take: {objection}");
    let way_out = match (reading, seen.binaries.pinned) {
        (true, _) => String::new(),
        (false, true) => format!("; put etcd {running} back at its path"),
        (false, false) => format!(
            "; install the package of etcd {running} again, or select another version (`etcd-agent upgrade --to`)"
        ),
    };
    Err(BinaryTrouble {
        why: why + &way_out,
        reading,
    })
}

/// What is wrong with the binary of the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryTrouble {
    /// For people.
    pub why: String,
    /// True if only the binary, etcd's log or its disk is to be read first.
    pub reading: bool,
}

impl BinaryTrouble {
    /// Holds a restart back that would take the binary.
    pub fn hold(self, wish: &mut RestartWish) {
        wish.held = Some(self.why);
        wish.reading = self.reading;
    }

    /// What is wrong, for somebody who wants to stop etcd. A stop that the gate does not hold back much longer
    /// does not wait for what is still to be read.
    pub fn against(self, wish: StopWish) -> Option<String> {
        (!self.reading || !wish.ends_soon()).then_some(self.why)
    }
}

/// Why the etcd that runs here, once stopped, might not start again: the version of its next start does not open its
/// data, or its binary was replaced by one that skips a minor. `unread`: it is not known yet which version
/// `etcd.service` starts by itself.
pub fn binary_trouble(seen: &EtcdSeen<'_>, unread: bool) -> Option<BinaryTrouble> {
    let etcd = seen.etcd?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let cancelled = seen.selected.is_some_and(|selected| selected.cancelled);
    if unread && seen.assigned.is_none() && (seen.replaced || cancelled) {
        let why = if seen.replaced {
            "its binary may have been replaced, and the version of the one that is there is read first"
        } else {
            "an upgrade was cancelled, and the version of the next start is read first"
        };
        return Some(BinaryTrouble {
            why: why.to_owned(),
            reading: true,
        });
    }
    if seen.assigned.is_some() || !seen.replaced {
        return Some(BinaryTrouble {
            why: format!("etcd {running} runs, and {}", unopened(seen, etcd)?),
            reading: false,
        });
    }
    wants_base(seen, etcd, running).err()
}

/// Why the etcd here must not be restarted now, although that was granted: it reports `own`, and its next start would
/// not open the data.
pub fn version_objection(observation: &Observation, own: &EtcdStatus) -> Option<String> {
    let cx = Context::new(observation, &Memory::default());
    let none = EtcdBinaries::default();
    unopened(&seen_by(&cx, &none), own).filter(|_| !mutant!(GoesBackLate))
}

/// Why the version of the next start does not open the data of the etcd that runs. etcd may have converted them after
/// this node got leave to go back to that version, and before it was restarted. What `etcd.service` starts by itself
/// counts where it was selected again, or an upgrade was cancelled.
pub(super) fn unopened(seen: &EtcdSeen<'_>, etcd: &EtcdStatus) -> Option<String> {
    let selected_again = |selected: &EtcdSelection| selected.cancelled || selected.version.is_none();
    let counts = seen.selected.is_some_and(selected_again);
    let next = seen.assigned.or(seen.binaries.base.filter(|_| counts))?;
    let why = opens(Some(next), etcd.stored()).err()?;
    Some(format!("the next start would take another version: {why}"))
}

/// True if the upgrade stops after another node.
fn is_paused(seen: &EtcdSeen<'_>) -> bool {
    let pause_after = seen.selected.and_then(|selected| selected.pause_after.as_ref());
    pause_after.is_some_and(|node| node != seen.node)
}

/// Checks that this host has that version.
pub(super) fn is_available(seen: &EtcdSeen<'_>, version: EtcdVersion) -> Result<(), String> {
    if seen.binaries.pinned {
        return Err(pinned(seen.node, version));
    }
    if seen.binaries.versions.contains(&version) {
        return Ok(());
    }
    Err(not_on_disk(seen.node, version, seen.versions_dir))
}

fn pinned(node: &NodeName, version: EtcdVersion) -> String {
    format!(
        "etcd.binary is configured on {node}, so etcd {version} cannot be selected there: remove that line and reload the agent"
    )
}

fn not_on_disk(node: &NodeName, version: EtcdVersion, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "{node} has no etcd {version}: unpack the release there, so that {dir}/etcd-v{version}/etcd or \
         {dir}/etcd-v{version}-linux-ARCHITECTURE/etcd of that host exists, is a program and belongs to root, as does each directory above it, \
         and only root can write to them"
    )
}

/// Why this node could not run that version.
pub(super) fn lacks(
    cx: &Context<'_>,
    node: &NodeName,
    status: &NodeStatus,
    to: EtcdVersion,
) -> Option<String> {
    let Some(binaries) = &status.etcd_binaries else {
        return Some(format!(
            "the agent on {node} is {} and cannot select a version of etcd: upgrade it first",
            status.agent_version
        ));
    };
    if binaries.pinned {
        return Some(pinned(node, to));
    }
    let there = binaries.versions.contains(&to);
    (!there).then(|| not_on_disk(node, to, &cx.spec.etcd.versions_dir))
}

/// Checks that this version of etcd opens data of the format of `stored`. An unknown format is that of no etcd
/// that has served here, and every version opens it.
pub(super) fn opens(version: Option<EtcdVersion>, stored: Option<EtcdVersion>) -> Result<(), String> {
    let Some(stored) = stored else { return Ok(()) };
    let (major, minor) = stored.series();
    match version {
        _ if mutant!(OpensAnyData) => Ok(()),
        Some(version) if version.series() >= stored.series() => Ok(()),
        Some(version) => Err(format!(
            "etcd {version} does not open data that etcd {major}.{minor} has converted"
        )),
        None => Err(format!(
            "it is not known which version etcd.service starts by itself, and the data have the format of {major}.{minor}"
        )),
    }
}

/// Checks that an older etcd than `running` may start: etcd allows it while the cluster's version, that of
/// its oldest member, is not newer (<https://etcd.io/docs/latest/upgrades/upgrading-etcd/>, "Rollback").
/// `to` is `None` for the binary of `etcd.service`. What this node's own etcd reports of its data counts as
/// well as what others report (rule 10).
fn goes_back(
    seen: &EtcdSeen<'_>,
    etcd: &EtcdStatus,
    running: EtcdVersion,
    to: Option<EtcdVersion>,
) -> Result<(), String> {
    let stays = |why: &str| format!("etcd here stays at {running}: {why}");
    let former = to.or(seen.binaries.base);
    opens(former, etcd.stored()).map_err(|why| stays(&why))?;
    // What runs may be what was selected before: the newer version was assigned, and never started.
    let never_started = seen.assigned.is_some() && seen.assigned != Some(running);
    if never_started || former.is_some_and(|former| former.series() == running.series()) {
        return Ok(());
    }
    let runs_it = |status: &NodeStatus| {
        let assigned = status.assignment.as_ref()?;
        let version = EtcdVersion::reported(&status.etcd.known()?.version)?;
        (assigned.etcd_version == to).then_some(version)
    };
    let mut versions = seen.peers.values().filter_map(|peer| runs_it(peer.known()?));
    let next = |version: EtcdVersion| (version.major, version.minor + 1);
    if versions.any(|version| running.series() == version.series() || running.series() == next(version)) {
        return Ok(());
    }
    Err(stays(
        "no other node is seen that still runs what was selected before",
    ))
}

pub(super) fn seen_by<'a>(cx: &'a Context<'_>, none: &'a EtcdBinaries) -> EtcdSeen<'a> {
    EtcdSeen {
        node: &cx.spec.node,
        selected: cx.selected.as_ref(),
        assigned: cx
            .obs
            .assignment
            .as_ref()
            .and_then(|assigned| assigned.etcd_version),
        etcd: cx.obs.me.etcd.known(),
        replaced: cx.obs.base.replaced,
        v2_entries: cx.obs.me.v2_entries,
        v2: &cx.obs.v2,
        now: cx.obs.steady,
        binaries: cx.obs.me.etcd_binaries.as_ref().unwrap_or(none),
        versions_dir: &cx.spec.etcd.versions_dir,
        peers: &cx.obs.peers,
    }
}

/// Reports a selected version that this node does not follow.
pub(super) fn report(cx: &mut Context<'_>) {
    if cx.obs.assignment.is_none() {
        return;
    }
    let none = EtcdBinaries::default();
    let seen = seen_by(cx, &none);
    let refused = wants_version(&seen).err();
    let pause = seen.selected.filter(|selected| {
        is_paused(&seen) && selected.version.is_some() && selected.version != seen.assigned
    });
    let text = pause.and_then(|selected| {
        let (after, version) = (selected.pause_after.as_ref()?, selected.version?);
        Some(format!(
            "the upgrade to etcd {version} is paused after {after}: `etcd-agent upgrade --to {version}` continues it"
        ))
    });
    if let Some(text) = text {
        cx.because(ReasonCode::UpgradePaused, text);
    }
    if let Some(why) = refused {
        cx.because(ReasonCode::UpgradeRefused, why);
    }
}
