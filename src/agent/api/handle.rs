//! The agent's side of the servers.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::backup;
use crate::genesis::{on_accept, on_enquire, on_prepare};
use crate::model::{
    Accept, AcceptReply, AdminStatus, Alarm, BackupChangeView, BackupId, BackupOrder, BackupSummary,
    Decision, DirectiveOrder, DirectiveView, DisarmOrder, DisarmView, Enquire, EnquireAnswer, EventsView,
    Fact, Learn, Leave, ListedBackup, LockOwner, NodeName, NodeStatus, OperatorRequest, Page, PlanView,
    Prepare, PrepareReply, QuarantineOrder, QuarantineView, RecentBackup, ReleaseView, RequestState,
    RequestView, RestoreTarget, SizeOrder, SizeView, StopVerdict, StoreCommand, Verdict,
};
use crate::ports::{AgentHandle, OrderError, PortError, PortResult};

use crate::agent::Agent;
use crate::agent::api::alarm;
use crate::agent::api::change_backup;
use crate::agent::api::directives;
use crate::agent::api::fresh;
use crate::agent::api::leave;
use crate::agent::api::listing;
use crate::agent::api::picture;
use crate::agent::api::quarantine;
use crate::agent::api::reboot_lock;
use crate::agent::api::size;
use crate::agent::api::stop;
use crate::agent::jobs::flush;
use crate::agent::state::FirstLook;
use crate::agent::state::jobs::JobKind;
use crate::agent::state::request_list::QUEUED;

/// A loop without a tick for this long is stuck.
const STUCK: Duration = Duration::from_mins(1);
/// Timeout of the question to systemd when a process connects to the gate.
const ASK_SYSTEMD: Duration = Duration::from_secs(2);
#[async_trait]
impl AgentHandle for Agent {
    fn status(&self) -> NodeStatus {
        let mut status = self
            .shared
            .with(|inner| inner.last.status().cloned())
            .unwrap_or_else(|| self.blank_status());
        let record = self.shared.elector();
        // Votes change between ticks. The status is never older than the disk.
        status.eligible = record.eligible;
        status.newest_epoch = record.newest_epoch;
        status.voted = record.voted();
        status.genesis = record.chosen;
        status.now = self.ports.clock.now();
        status
    }

    fn status_version(&self) -> u64 {
        self.shared.version.get()
    }

    async fn status_after(&self, version: u64) {
        self.shared.version.above(version).await;
    }

    async fn fresh_status(&self) -> PortResult<NodeStatus> {
        fresh::status(self).await
    }

    async fn first_look(&self) {
        self.shared.until(FirstLook::Here).await;
    }

    async fn is_etcds(&self, pid: u32) -> bool {
        match timeout(ASK_SYSTEMD, self.ports.service.is_etcds(pid)).await {
            Ok(Ok(is)) => is,
            // A start of etcd must not fail because systemd does not answer. The gate's slots bound what
            // other processes can do.
            Ok(Err(_)) | Err(_) => true,
        }
    }

    async fn enquire(&self, message: Enquire) -> PortResult<EnquireAnswer> {
        let electorate = self.shared.electorate.clone();
        let answer = self.shared.update_elector(self.ports.state.as_ref(), |record| {
            on_enquire(record, &electorate, &message)
        })?;
        Ok(match answer {
            Ok(reply) => EnquireAnswer::Reply(Box::new(reply)),
            Err(refusal) => EnquireAnswer::Refused(refusal),
        })
    }

    async fn prepare(&self, message: Prepare) -> PortResult<PrepareReply> {
        let electorate = self.shared.electorate.clone();
        self.shared.update_elector(self.ports.state.as_ref(), |record| {
            on_prepare(record, &electorate, &message)
        })
    }

    async fn accept(&self, message: Accept) -> PortResult<AcceptReply> {
        let electorate = self.shared.electorate.clone();
        self.shared.update_elector(self.ports.state.as_ref(), |record| {
            on_accept(record, &electorate, &message)
        })
    }

    async fn learn(&self, message: Learn) -> PortResult<()> {
        if message.genesis.cluster != self.spec.cluster {
            return Err(PortError::Permanent(format!(
                "this is cluster {}, not {}",
                self.spec.cluster, message.genesis.cluster
            )));
        }
        let (reported, open) = (message.genesis.epoch, self.shared.elector().open_epoch());
        if reported <= open {
            return Ok(());
        }
        if let Some(why) = message.genesis.objection(open) {
            let why = format!("the genesis of epoch {reported} is not believed: {why}");
            return Err(PortError::Permanent(why));
        }
        // The sender may lie, so the loop asks the electors before it acts.
        self.shared.with(|inner| inner.genesis.push(message.genesis));
        self.shared.wake.notify_one();
        Ok(())
    }

    fn admin_status(&self) -> AdminStatus {
        let node = self.status();
        let peers = self.ports.peers.last_seen();
        let leader = node.etcd.known().and_then(|e| e.leader);
        let leads = |s: &NodeStatus| s.etcd.known().is_some_and(|e| Some(e.member_id) == leader);
        let coordinator = leader.and_then(|_| {
            std::iter::once(&node)
                .chain(peers.values().filter_map(Fact::known))
                .find(|s| leads(s))
                .map(|s| s.node.clone())
        });
        let (decision, config_error, store_error, verified, conflicts) = self.shared.with(|inner| {
            let store_error = match inner.store.last() {
                Some(Fact::Unreachable(why)) => Some(why.clone()),
                _ => None,
            };
            let verified = match inner.store.last() {
                Some(Fact::Known(view)) => view.verify.last.clone(),
                _ => None,
            };
            let conflicts = inner
                .last
                .observation()
                .and_then(|o| o.in_force.known())
                .map(|f| f.conflicts.clone())
                .unwrap_or_default();
            (
                inner.last.decision().cloned(),
                inner.config_error.clone(),
                store_error,
                verified,
                conflicts,
            )
        });
        AdminStatus {
            starting: *self.shared.first_look.borrow() < FirstLook::Done,
            node,
            peers,
            coordinator,
            decision: decision.unwrap_or_else(no_decision),
            size: self.size(),
            backups: self.shared.with(|inner| inner.jobs.backups()),
            store: self.ports.store.as_ref().map(|s| s.describe()),
            store_error,
            copy: self.shared.with(|inner| inner.copy.clone()),
            config_error,
            api_tls_error: self.certificates.as_ref().and_then(|files| files.trouble()),
            verified,
            conflicts,
            vitals: picture::vitals(self),
        }
    }

    fn recent_backups(&self) -> Vec<RecentBackup> {
        picture::recent_backups(self)
    }

    async fn fresh_admin_status(&self) -> PortResult<AdminStatus> {
        let seen = fresh::observation(self).await?;
        Ok(AdminStatus {
            node: seen.me,
            peers: seen.peers,
            ..self.admin_status()
        })
    }

    fn plan_view(&self) -> Option<PlanView> {
        self.shared.with(|inner| {
            Some(PlanView {
                observation: inner.last.observation().cloned()?,
                decision: inner.last.decision().cloned()?,
            })
        })
    }

    async fn backups(
        &self,
        only: Option<BackupId>,
        after: Option<BackupId>,
    ) -> PortResult<Page<ListedBackup>> {
        listing::backups(self, only, after).await
    }

    async fn point(&self, backup: Option<BackupId>, wanted: RestoreTarget) -> PortResult<BackupSummary> {
        let store = self.ports.store.clone();
        let store =
            store.ok_or_else(|| PortError::Permanent("no store is configured: set store.url".to_owned()))?;
        backup::find(store.as_ref(), &self.spec.cluster, backup.as_ref(), wanted).await
    }

    async fn retention(&self, after: Option<BackupId>) -> PortResult<Page<Verdict>> {
        listing::retention(self, after).await
    }

    async fn change_backup(&self, order: &BackupOrder) -> Result<BackupChangeView, OrderError> {
        change_backup::change(self, order).await
    }

    async fn commands(&self) -> PortResult<Vec<StoreCommand>> {
        let store = self
            .ports
            .store
            .clone()
            .ok_or_else(crate::agent::jobs::no_store)?;
        backup::commands(store.as_ref(), &self.spec.cluster).await
    }

    async fn delete_command(&self, name: &str) -> PortResult<bool> {
        let store = self
            .ports
            .store
            .clone()
            .ok_or_else(crate::agent::jobs::no_store)?;
        let deleted = backup::delete_command(store.as_ref(), &self.spec.cluster, name).await?;
        if deleted {
            tracing::warn!(
                "an operator has deleted the command {} from the store",
                name.escape_debug()
            );
        }
        self.shared.with(|inner| {
            if let Some(view) = inner.store.view_mut() {
                view.commands.retain(|other| other != name);
            }
        });
        Ok(deleted)
    }

    fn submit(&self, mut request: OperatorRequest) -> PortResult<RequestView> {
        self.fill_in(&mut request);
        let changes = !self.is_so(&request);
        let view = self.shared.submit(request, false, changes)?;
        let busy = self.shared.with(|inner| inner.jobs.job(JobKind::Verify).running);
        if busy && view.message == QUEUED && matches!(view.request, OperatorRequest::Verify { .. }) {
            let asked = view.request.clone();
            let text = "waits: another verification is under way, and only one runs at a time";
            self.shared
                .set_request_state(|r| *r == asked, RequestState::Pending, text);
        }
        Ok(view)
    }

    fn take_over(&self, mut request: OperatorRequest) -> PortResult<RequestView> {
        self.fill_in(&mut request);
        let changes = !self.is_so(&request);
        self.shared.submit(request, true, changes)
    }

    fn request(&self, id: u64) -> Option<RequestView> {
        self.shared.request(id)
    }

    async fn direct(&self, order: &DirectiveOrder) -> PortResult<DirectiveView> {
        directives::direct(self, order).await
    }

    async fn set_size(&self, order: &SizeOrder) -> Result<SizeView, OrderError> {
        size::set(self, order).await
    }

    async fn ok_to_stop(&self, node: Option<NodeName>) -> PortResult<StopVerdict> {
        stop::ok_to_stop(self, node).await
    }

    async fn alarms(&self) -> PortResult<Vec<Alarm>> {
        alarm::list(self).await
    }

    async fn quarantine(&self, order: &QuarantineOrder) -> PortResult<QuarantineView> {
        quarantine::order(self, order).await
    }

    async fn disarm(&self, order: &DisarmOrder) -> PortResult<DisarmView> {
        alarm::disarm(self, order).await
    }

    fn release_reboot_lock(&self, only: Option<&LockOwner>) -> PortResult<ReleaseView> {
        reboot_lock::release(self, only)
    }

    fn preview(&self, request: &OperatorRequest) -> PortResult<DirectiveView> {
        directives::preview(self, request)
    }

    fn events(&self, after: u64) -> EventsView {
        self.shared.with(|inner| inner.events.after(after))
    }

    async fn leave_to_stop(&self) -> Leave {
        leave::leave_to_stop(self).await
    }

    async fn before_stop(&self) -> String {
        flush::before_stop(self).await
    }

    fn gate(&self) -> PortResult<(bool, String)> {
        if self.shared.with(|inner| inner.last.observation().is_none()) {
            if mutant!(GateBlind) {
                return Ok((true, String::new()));
            }
            return Err(PortError::Retryable(
                "the agent has just started and has not looked around yet".to_owned(),
            ));
        }
        // Read from the disk: the last observation may be older than the assignment.
        let assigned = self.ports.state.assignment()?;
        let cleared = self.ports.state.cleared_gate()?;
        // A reported newer epoch holds a start back, even if the gate has no state of its own.
        let newest = self.shared.elector().newest_epoch;
        let clear = assigned
            .as_ref()
            .is_none_or(|a| a.is_cleared(cleared) && newest <= a.epoch);
        let now = self.ports.clock.steady();
        let text = self.shared.with(|inner| {
            // A gate that may pass does not ask. If it asks, it has found other data than the agent's last
            // inspection.
            if clear {
                inner
                    .data
                    .forget_older(now, "the gate of etcd.service holds a start back");
            }
            let reasons = inner.last.decision().into_iter().flat_map(|d| &d.reasons);
            let texts: Vec<&str> = reasons.map(|r| r.text.as_str()).collect();
            texts.join("; ")
        });
        if clear {
            self.shared.wake.notify_one();
        }
        Ok((clear, text))
    }

    fn is_live(&self) -> bool {
        let now = self.ports.clock.steady();
        self.shared
            .with(|inner| inner.last.at().is_some_and(|at| now.since(at) < STUCK))
    }

    fn is_ready(&self) -> bool {
        let status = self.status();
        let newest = status.genesis.as_ref().map(|g| g.cluster_id);
        status
            .etcd
            .known()
            .is_some_and(|e| e.leader.is_some() && Some(e.cluster_id) == newest)
    }
}

fn no_decision() -> Decision {
    Decision {
        action: None,
        reasons: Vec::new(),
        wake: Duration::ZERO,
        memory: crate::model::Memory::default(),
        coordinator: false,
        text: "the cluster has not been observed yet".to_owned(),
        order: None,
    }
}
