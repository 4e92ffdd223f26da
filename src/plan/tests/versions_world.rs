//! A cluster whose nodes have several versions of etcd on disk, and what n2 sees of it.

use super::*;
use crate::model::{V2Names, V2View};
use crate::plan::{EtcdSeen, wants_version};

pub(super) fn version(text: &str) -> EtcdVersion {
    text.parse().unwrap()
}

/// The disk of this node was read at that time, and had these keys of v2.
pub(super) fn read_v2(names: V2Names, at: SteadyMs) -> V2View {
    let found = Fact::Known(names);
    V2View { found, at }
}

/// A key of v2, and the request that has put it.
pub(super) fn key_of_v2() -> V2Names {
    V2Names {
        keys: 1,
        example: Some("/app/one".to_owned()),
        in_log: true,
        ..V2Names::default()
    }
}

/// All nodes of a healthy cluster have these versions on disk, and no keys of v2.
pub(super) fn with_versions(me: usize, versions: &[&str]) -> Observation {
    let mut obs = healthy(me);
    obs.v2 = read_v2(V2Names::default(), obs.steady);
    each(&mut obs, |status| {
        status.etcd_binaries = Some(EtcdBinaries {
            base: Some(version("3.5.35")),
            versions: versions.iter().map(|text| version(text)).collect(),
            pinned: false,
        });
    });
    obs
}

pub(super) fn each(obs: &mut Observation, change: impl Fn(&mut NodeStatus)) {
    change(&mut obs.me);
    for peer in obs.peers.values_mut() {
        if let Fact::Known(status) = peer {
            change(status);
        }
    }
}

pub(super) fn runs(status: &mut NodeStatus, text: &str) {
    let Fact::Known(etcd) = &mut status.etcd else {
        return;
    };
    text.clone_into(&mut etcd.version);
}

pub(super) fn base(obs: &mut Observation, text: &str) {
    each(obs, |status| {
        status.etcd_binaries.as_mut().unwrap().base = Some(version(text));
    });
}

/// All members run 3.6.16 and have converted their data.
pub(super) fn converted(obs: &mut Observation) {
    each(obs, |status| {
        runs(status, "3.6.16");
        let Fact::Known(etcd) = &mut status.etcd else {
            return;
        };
        etcd.storage_version = Some(version("3.6.0"));
    });
}

pub(super) fn select(obs: &mut Observation, selection: &EtcdSelection) {
    each(obs, |status| {
        status.steering.directives.version = 5;
        status.steering.directives.etcd = Some(selection.clone());
    });
}

pub(super) fn to(text: &str) -> EtcdSelection {
    EtcdSelection {
        version: Some(version(text)),
        ..EtcdSelection::default()
    }
}

pub(super) fn upgrade(text: &str) -> DirectiveChange {
    DirectiveChange::Upgrade {
        to: version(text),
        pause_after: None,
    }
}

/// What n2 wants.
pub(super) fn wish_of(obs: &Observation) -> Result<Option<String>, String> {
    wants_version(&seen(obs))
}

/// What n2 sees.
pub(super) fn seen(obs: &Observation) -> EtcdSeen<'_> {
    EtcdSeen {
        node: &obs.spec.node,
        selected: obs.me.steering.directives.etcd.as_ref(),
        assigned: obs.assignment.as_ref().unwrap().etcd_version,
        etcd: obs.me.etcd.known(),
        replaced: obs.base.replaced,
        v2_entries: obs.me.v2_entries,
        v2: &obs.v2,
        now: obs.steady,
        binaries: obs.me.etcd_binaries.as_ref().unwrap(),
        versions_dir: &obs.spec.etcd.versions_dir,
        peers: &obs.peers,
    }
}
