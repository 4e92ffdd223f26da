//! An agent handle for tests, and a complete peer API in the same process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Limits, PeerListener, serve_peers};
use crate::adapters::tls::Tls;
use crate::model::*;
use crate::ports::{AgentHandle, OrderError, PortError, PortResult};
use crate::telemetry::Counters;

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

pub(crate) fn incarnation() -> Incarnation {
    Incarnation::new("0123456789abcdef0123456789abcdef").unwrap()
}

pub(crate) fn enquiry(from: &str) -> Enquire {
    Enquire {
        from: name(from),
        incarnation: incarnation(),
        electorate_digest: "d".to_owned(),
    }
}

pub(crate) fn node_status(node: &str) -> NodeStatus {
    NodeStatus {
        node: name(node),
        agent_version: "0.1.0".to_owned(),
        incarnation: incarnation(),
        boot_id: "b".to_owned(),
        cluster: ClusterName::new("prod").unwrap(),
        spec_digest: String::new(),
        electorate_digest: String::new(),
        store_digest: None,
        eligible: false,
        unit: Fact::default(),
        data: Fact::default(),
        assignment: None,
        etcd: Fact::default(),
        members: Fact::default(),
        etcd_too_old: None,
        v2_entries: None,
        v2_trouble: None,
        version_trouble: None,
        etcd_binaries: None,
        newest_epoch: Epoch(0),
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
        last_backup: None,
        certificate_not_after: None,
        steering: Steering::default(),
        insecure: false,
        now: UnixMs(1),
        text: "waiting".to_owned(),
    }
}

/// Returns preset answers, and counts calls that would change something.
pub(crate) struct FakeAgent {
    status: Mutex<NodeStatus>,
    version: watch::Sender<u64>,
    pub(crate) writes: AtomicUsize,
    /// Long polls that waited and then returned because the status changed.
    pub(crate) woken: AtomicUsize,
    pub(crate) live: AtomicBool,
}

impl FakeAgent {
    pub(crate) fn new(node: &str) -> Arc<Self> {
        Arc::new(Self {
            status: Mutex::new(node_status(node)),
            version: watch::Sender::new(1),
            writes: AtomicUsize::new(0),
            woken: AtomicUsize::new(0),
            live: AtomicBool::new(true),
        })
    }
    pub(crate) fn change(&self, text: &str) {
        text.clone_into(&mut self.status.lock().unwrap().text);
        self.version.send_modify(|version| *version += 1);
    }
    /// True while a long poll waits for a change of the status.
    pub(crate) fn is_asked(&self) -> bool {
        self.version.receiver_count() > 0
    }
    fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl AgentHandle for FakeAgent {
    fn status(&self) -> NodeStatus {
        self.status.lock().unwrap().clone()
    }
    fn status_version(&self) -> u64 {
        *self.version.borrow()
    }
    async fn status_after(&self, version: u64) {
        let _ = self.version.subscribe().wait_for(|now| *now > version).await;
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
    async fn is_etcds(&self, _: u32) -> bool {
        true
    }
    async fn fresh_status(&self) -> PortResult<NodeStatus> {
        if !self.is_live() {
            return Err(PortError::Retryable("the agent has not looked again".to_owned()));
        }
        let mut status = self.status();
        "fresh".clone_into(&mut status.text);
        Ok(status)
    }
    async fn enquire(&self, _: Enquire) -> PortResult<EnquireAnswer> {
        self.wrote();
        Ok(EnquireAnswer::Reply(Box::new(crate::model::EnquireReply {
            from: self.status().node,
            incarnation: incarnation(),
            newest_epoch: Epoch(0),
            chosen: None,
            votes: BTreeMap::from([(Epoch(1), EpochVotes::default())]),
            incarnations: BTreeMap::default(),
            superseded: std::collections::BTreeSet::default(),
            may_have_voted: Epoch(0),
            new_memory: false,
        })))
    }
    async fn prepare(&self, _: Prepare) -> PortResult<PrepareReply> {
        self.wrote();
        Err(PortError::Retryable("the disk is full".to_owned()))
    }
    async fn accept(&self, _: Accept) -> PortResult<AcceptReply> {
        self.wrote();
        Err(PortError::OutcomeUnknown("fsync failed".to_owned()))
    }
    async fn learn(&self, _: Learn) -> PortResult<()> {
        self.wrote();
        Ok(())
    }
    async fn fresh_admin_status(&self) -> PortResult<AdminStatus> {
        Ok(self.admin_status())
    }
    fn admin_status(&self) -> AdminStatus {
        AdminStatus {
            starting: false,
            node: self.status(),
            peers: BTreeMap::from([(name("n2"), Fact::Unreachable("x".to_owned()))]),
            coordinator: None,
            decision: Decision {
                action: None,
                reasons: Vec::new(),
                wake: Duration::from_secs(1),
                memory: Memory::default(),
                coordinator: true,
                text: String::new(),
                order: None,
            },
            size: 3,
            backups: BackupView::default(),
            store: None,
            store_error: None,
            copy: None,
            config_error: None,
            api_tls_error: None,
            verified: None,
            conflicts: Vec::new(),
            vitals: Vitals::default(),
        }
    }
    fn recent_backups(&self) -> Vec<RecentBackup> {
        Vec::new()
    }
    fn plan_view(&self) -> Option<PlanView> {
        None
    }
    async fn backups(&self, _: Option<BackupId>, _: Option<BackupId>) -> PortResult<Page<ListedBackup>> {
        Err(PortError::Permanent("no store is configured".to_owned()))
    }
    async fn point(&self, _: Option<BackupId>, _: RestoreTarget) -> PortResult<BackupSummary> {
        Err(PortError::Permanent("no store is configured".to_owned()))
    }
    async fn commands(&self) -> PortResult<Vec<StoreCommand>> {
        Err(PortError::Permanent("no store is configured".to_owned()))
    }
    async fn delete_command(&self, _: &str) -> PortResult<bool> {
        Err(PortError::Permanent("no store is configured".to_owned()))
    }
    async fn retention(&self, _: Option<BackupId>) -> PortResult<Page<Verdict>> {
        Err(PortError::Permanent("no store is configured".to_owned()))
    }
    fn submit(&self, request: OperatorRequest) -> PortResult<RequestView> {
        self.wrote();
        Ok(RequestView {
            id: 1,
            request,
            state: RequestState::Pending,
            message: "queued".to_owned(),
            changed: true,
        })
    }
    fn take_over(&self, request: OperatorRequest) -> PortResult<RequestView> {
        self.submit(request)
    }
    fn request(&self, id: u64) -> Option<RequestView> {
        (id == 1).then(|| RequestView {
            id,
            request: OperatorRequest::Backup,
            state: RequestState::Done,
            message: "b (revision 7)".to_owned(),
            changed: true,
        })
    }
    async fn direct(&self, order: &DirectiveOrder) -> PortResult<DirectiveView> {
        self.wrote();
        let node = self.status();
        let none = node.steering.directives;
        let after = none.after(&order.change, &node.node, UnixMs(1));
        Ok(DirectiveView {
            changed: after.is_some() && !order.dry_run,
            directives: after.unwrap_or(none),
            steps: Vec::new(),
            decision: None,
        })
    }
    async fn change_backup(&self, order: &BackupOrder) -> Result<BackupChangeView, OrderError> {
        self.wrote();
        if order.change == BackupChange::Delete {
            return Err(PortError::Permanent("it is the newest one".to_owned()).into());
        }
        if order.change == BackupChange::Release {
            return Err(OrderError::Store(PortError::Retryable("SlowDown".to_owned())));
        }
        Ok(BackupChangeView {
            backup: order.backup.clone(),
            changed: !order.dry_run,
            message: "kept".to_owned(),
        })
    }
    async fn set_size(&self, order: &SizeOrder) -> Result<SizeView, OrderError> {
        self.wrote();
        if order.size == 9 {
            return Err(OrderError::Store(PortError::Retryable("SlowDown".to_owned())));
        }
        Ok(SizeView {
            size: order.size,
            before: 3,
            changed: !order.dry_run,
            place: "prod/control/etcd-cluster-spec in file:///b".to_owned(),
            decision: None,
        })
    }
    async fn ok_to_stop(&self, node: Option<NodeName>) -> PortResult<StopVerdict> {
        let node = node.unwrap_or_else(|| self.status().node);
        if node == name("n9") {
            return Err(PortError::Permanent(
                "n9 is not a node of this cluster".to_owned(),
            ));
        }
        Ok(StopVerdict {
            node,
            ok: true,
            reasons: Vec::new(),
            notes: Vec::new(),
            left: None,
        })
    }
    async fn alarms(&self) -> PortResult<Vec<Alarm>> {
        Ok(vec![Alarm {
            member_id: MemberId(0xcafe),
            node: Some(name("n1")),
            alarm: AlarmKind::NoSpace,
        }])
    }
    async fn quarantine(&self, order: &QuarantineOrder) -> PortResult<QuarantineView> {
        if matches!(order, QuarantineOrder::End { force: false }) {
            return Err(PortError::Permanent("refused: a node does not answer".to_owned()));
        }
        self.wrote();
        Ok(QuarantineView {
            changed: true,
            ..QuarantineView::default()
        })
    }

    async fn disarm(&self, order: &DisarmOrder) -> PortResult<DisarmView> {
        if !order.force {
            return Err(PortError::Permanent("refused: the database is full".to_owned()));
        }
        self.wrote();
        Ok(DisarmView {
            disarmed: self.alarms().await?,
            left: Vec::new(),
        })
    }
    fn release_reboot_lock(&self, _: Option<&LockOwner>) -> PortResult<ReleaseView> {
        self.wrote();
        Ok(ReleaseView {
            node: self.status().node,
            changed: true,
        })
    }
    fn preview(&self, _: &OperatorRequest) -> PortResult<DirectiveView> {
        Ok(DirectiveView {
            directives: Directives::default(),
            changed: false,
            steps: vec!["the leader moves".to_owned()],
            decision: None,
        })
    }
    fn events(&self, after: u64) -> EventsView {
        EventsView {
            newest: after + 1,
            events: Vec::new(),
        }
    }
    fn gate(&self) -> PortResult<(bool, String)> {
        if !self.is_live() {
            return Err(PortError::Retryable("not looked yet".to_owned()));
        }
        Ok((false, "waiting for the electorate".to_owned()))
    }
    async fn leave_to_stop(&self) -> Leave {
        Leave::go("n1 granted it")
    }
    async fn before_stop(&self) -> String {
        "all is stored".to_owned()
    }
    fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }
    fn is_ready(&self) -> bool {
        false
    }
}

/// A running peer API. Dropping it stops the server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) agent: Arc<FakeAgent>,
    _end: DropGuard,
}

pub(crate) fn nodes() -> BTreeMap<NodeName, String> {
    ["n1", "n2", "n3"]
        .map(|node| (name(node), "127.0.0.1".to_owned()))
        .into()
}

/// Limits that are short enough for a test.
pub(crate) fn quick() -> Limits {
    Limits {
        handshake: Duration::from_millis(300),
        header: Duration::from_millis(300),
        body: Duration::from_millis(300),
        connections_per_address: 6,
        ..Limits::peers()
    }
}

pub(crate) async fn serve(agent: Arc<FakeAgent>, tls: Option<Arc<Tls>>, limits: Limits) -> Served {
    serve_at(([127, 0, 0, 1], 0).into(), agent, tls, limits).await
}

pub(crate) async fn serve_at(
    listen: SocketAddr,
    agent: Arc<FakeAgent>,
    tls: Option<Arc<Tls>>,
    limits: Limits,
) -> Served {
    // The names of the electorate do not resolve to the loopback address that all nodes have in tests.
    let nodes = nodes()
        .into_keys()
        .map(|node| (node.clone(), format!("{node}.example.org")))
        .collect();
    serve_to(nodes, listen, agent, tls, limits).await
}

/// The same, but the nodes' configured address is the loopback address that all nodes have in tests.
pub(crate) async fn serve_known(agent: Arc<FakeAgent>, tls: Option<Arc<Tls>>, limits: Limits) -> Served {
    serve_to(nodes(), ([127, 0, 0, 1], 0).into(), agent, tls, limits).await
}

async fn serve_to(
    nodes: BTreeMap<NodeName, String>,
    listen: SocketAddr,
    agent: Arc<FakeAgent>,
    tls: Option<Arc<Tls>>,
    limits: Limits,
) -> Served {
    let listener = Arc::new(TcpListener::bind(listen).await.unwrap());
    let listener = PeerListener::new(listener, tls, nodes).with_limits(limits);
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn(serve_peers(
        listener,
        agent.clone(),
        Arc::new(Counters::default()),
        shutdown.clone(),
    ));
    Served {
        address,
        agent,
        _end: shutdown.drop_guard(),
    }
}
