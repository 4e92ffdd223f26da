//! A cluster of three, as its agents would report it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tempfile::TempDir;

use crate::model::{testing, *};
use crate::paths::Paths;

pub(super) const NOW: UnixMs = UnixMs(1_772_366_640_000);

pub(in crate::cli) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// A tree with this configuration file.
pub(super) fn settings_tree(text: &str) -> (TempDir, Paths) {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::below(root.path());
    std::fs::create_dir_all(paths.config_file().parent().unwrap()).unwrap();
    if !text.is_empty() {
        std::fs::write(paths.config_file(), text).unwrap();
    }
    (root, paths)
}

pub(super) fn backups() -> Vec<BackupSummary> {
    [
        ("2026-03-01T11:00:00Z-000002", 81_000, 44),
        ("2026-03-01T12:00:00Z-000003", 81_237, 4),
    ]
    .map(|(id, revision, minutes)| BackupSummary {
        id: BackupId::new(id).unwrap(),
        at: UnixMs(NOW.0 - minutes * 60_000),
        revision: Revision(revision),
        size_bytes: 12_345_678,
    })
    .to_vec()
}

fn members() -> MemberList {
    let member = |number: u64| Member {
        id: MemberId(0xa0 + number),
        name: format!("n{number}"),
        peer_urls: vec![format!("https://n{number}:2380")],
        client_urls: vec![format!("https://n{number}:2379")],
        is_learner: false,
    };
    MemberList {
        cluster_id: ClusterId(0xcafe),
        term: RaftTerm(7),
        linearizable: true,
        members: (1..=3).map(member).collect(),
    }
}

pub(super) fn node(number: u64) -> NodeStatus {
    let id = MemberId(0xa0 + number);
    NodeStatus {
        node: name(&format!("n{number}")),
        agent_version: "0.1.0".to_owned(),
        incarnation: Incarnation::new("0123456789abcdef0123456789abcdef").unwrap(),
        boot_id: "boot".to_owned(),
        cluster: ClusterName::new("prod").unwrap(),
        spec_digest: "s".to_owned(),
        electorate_digest: "e".to_owned(),
        store_digest: None,
        eligible: true,
        unit: Fact::Known(UnitState {
            active: ActiveState::Active,
            sub: "running".to_owned(),
            result: "success".to_owned(),
            main_pid: 42,
            load: LoadState::Loaded,
            held: false,
            ended_us: 0,
        }),
        data: Fact::Known(DataState::Present {
            cluster_id: ClusterId(0xcafe),
            member_id: id,
        }),
        assignment: Some(AssignmentSummary {
            generation: Generation(1),
            epoch: Epoch(1),
            cluster_id: ClusterId(0xcafe),
            member_id: id,
            started_once: true,
            etcd_version: None,
        }),
        etcd: Fact::Known(EtcdStatus {
            version: "3.6.16".to_owned(),
            storage_version: None,
            downgrade_to: None,
            cluster_id: ClusterId(0xcafe),
            member_id: id,
            leader: Some(MemberId(0xa1)),
            is_learner: false,
            term: RaftTerm(7),
            index: 90_000,
            applied: 90_000,
            db_size_bytes: 25_165_824,
            db_in_use_bytes: None,
            revision: Revision(81_240),
            errors: Vec::new(),
        }),
        members: Fact::Known(members()),
        etcd_too_old: None,
        v2_entries: None,
        v2_trouble: None,
        version_trouble: None,
        etcd_binaries: Some(EtcdBinaries::default()),
        newest_epoch: Epoch(1),
        voted: Epoch(0),
        genesis: None,
        silent_agents: std::collections::BTreeSet::new(),
        silent_etcds: std::collections::BTreeSet::new(),
        backup_failures: 0,
        store_failures: 0,
        peer_url: None,
        transport: None,
        tls_trouble: None,
        binary_trouble: None,
        archive_trouble: None,
        last_backup: backups().pop(),
        certificate_not_after: None,
        steering: Steering::default(),
        insecure: false,
        now: NOW,
        text: String::new(),
    }
}

pub(super) fn decision(text: &str) -> Decision {
    Decision {
        action: None,
        reasons: Vec::new(),
        wake: Duration::from_secs(10),
        memory: Memory::default(),
        coordinator: true,
        text: text.to_owned(),
        order: None,
    }
}

/// All is well.
pub(in crate::cli) fn status() -> AdminStatus {
    AdminStatus {
        starting: false,
        node: node(1),
        peers: BTreeMap::from([
            (name("n2"), Fact::Known(node(2))),
            (name("n3"), Fact::Known(node(3))),
        ]),
        coordinator: Some(name("n1")),
        decision: decision("n1 leader of prod, 3/3 healthy, last backup 4m ago (rev 81237), coordinator n1"),
        size: 3,
        backups: BackupView::default(),
        store: Some("s3://backups/etcd".to_owned()),
        store_error: None,
        copy: None,
        config_error: None,
        api_tls_error: None,
        verified: None,
        conflicts: Vec::new(),
        vitals: Vitals::default(),
    }
}

pub(super) fn observation() -> Observation {
    Observation {
        now: NOW,
        steady: SteadyMs(NOW.0),
        seed: 7,
        me: node(1),
        assignment: None,
        removal: None,
        newest_epoch: Epoch(1),
        elector: ElectorView {
            eligible: true,
            enquired: BTreeSet::new(),
            superseded: BTreeSet::new(),
            may_have_voted: Epoch(0),
            highest_round: 0,
            accepted: None,
            hearsay: false,
            pushed: None,
            denied: BTreeMap::new(),
        },
        peers: status().peers,
        clocks: BTreeMap::new(),
        store: Fact::Absent,
        spec_record: crate::model::SpecRecord::default(),
        in_force: Fact::Absent,
        gate: GateView::default(),
        last_words: None,
        no_room: false,
        mount_unknown: false,
        runs_on: None,
        served: None,
        stored: None,
        base: BaseView::default(),
        drift: DriftView::default(),
        tls: crate::model::TlsView::default(),
        v2: crate::model::V2View::default(),
        staged: None,
        fetched: None,
        highest_backup_epoch: Epoch(0),
        outrun: None,
        backup: Job::default(),
        backups: BackupView::default(),
        restore: Job::default(),
        compact: Job::default(),
        hash_check: Job::default(),
        requests: Vec::new(),
        spec: testing::spec(&["n1", "n2", "n3"]),
    }
}

/// The same, and all know the genesis of the epoch. Each agent has a memory of its own.
pub(in crate::cli) fn observation_of_an_epoch() -> Observation {
    let mut seen = observation();
    let genesis = Genesis {
        epoch: Epoch(1),
        cluster: ClusterName::new("prod").unwrap(),
        cluster_id: ClusterId(0xcafe),
        token: "prod-1-abc".to_owned(),
        members: BTreeMap::new(),
        origin: Origin::Empty,
        electorate: BTreeMap::new(),
        created: UnixMs(1),
        former: Vec::new(),
        etcd: None,
    };
    let peers = seen.peers.values_mut().filter_map(|peer| match peer {
        Fact::Known(status) => Some(status),
        _ => None,
    });
    for (number, status) in std::iter::once(&mut seen.me).chain(peers).enumerate() {
        status.genesis = Some(genesis.clone());
        status.incarnation = Incarnation::new(format!("{number:032x}")).unwrap();
    }
    seen
}
