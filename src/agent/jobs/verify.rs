//! Verifies a backup, as a background job.

use std::time::Duration;

use crate::backup::{self, Verification, VerifyMeta};
use crate::model::{BackupId, OperatorRequest, RequestState};
use crate::ports::VerifyRestoreRequest;
use crate::telemetry::message_ids;

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};
use crate::agent::state::jobs::JobKind;

/// Timeout of one restore into a temporary etcd. It runs at low priority, so a large database takes long.
const WITHIN: Duration = Duration::from_hours(3);

/// Starts to restore this backup into a temporary etcd and to compare the contents.
pub(crate) fn verify(agent: &Agent, id: &BackupId) {
    let (worker, meta) = (
        agent.clone(),
        VerifyMeta {
            cluster: agent.spec.cluster.clone(),
            id: id.clone(),
            node: agent.spec.node.clone(),
            now: agent.ports.clock.now(),
        },
    );
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let say = |text: &str| {
            worker
                .shared
                .set_request_state(|r| asks(r, &meta.id), RequestState::Pending, text);
        };
        say(&format!("{}: fetching and checking it", meta.id));
        let verify_restore = async |request: VerifyRestoreRequest| {
            let what = match request.revision {
                None => "restoring it into a throw-away etcd",
                Some(_) => "restoring it with its increments into a throw-away etcd",
            };
            say(&format!("{}: {what}", meta.id));
            worker.ports.service.verify_restore(&request, WITHIN).await
        };
        let live = worker.ports.etcd.as_ref();
        backup::verify(store.as_ref(), &meta, &worker.verify_dir, live, verify_restore).await
    };
    let id = id.clone();
    spawn(agent, JobKind::Verify, work, move |agent, result| match result {
        Ok(found) => ended(agent, &found),
        Err(error) => {
            tracing::warn!(
                message_id = message_ids::VERIFY_FAILED,
                "backup {id} could not be verified: {error}"
            );
            agent
                .shared
                .set_request_state(|r| asks(r, &id), RequestState::Failed, &error.to_string());
        }
    });
}

fn asks(request: &OperatorRequest, id: &BackupId) -> bool {
    matches!(request, OperatorRequest::Verify { backup } if backup == id)
}

fn ended(agent: &Agent, found: &Verification) {
    let text = found.text();
    let state = if found.ok {
        tracing::info!(message_id = message_ids::BACKUP_VERIFIED, "{text}");
        RequestState::Done
    } else {
        tracing::error!(message_id = message_ids::BACKUP_BAD, "{text}");
        RequestState::Failed
    };
    agent
        .shared
        .set_request_state(|r| asks(r, &found.id), state, &text);
    agent.shared.with(|inner| {
        if let Some(view) = inner.store.view_mut() {
            let newer = view.verify.last.as_ref().is_none_or(|(id, _)| *id <= found.id);
            if newer {
                view.verify.last = Some((found.id.clone(), found.summary()));
            }
        }
    });
}
