//! Releases this node's reboot lock.

use crate::agent::Agent;
use crate::model::{LockOwner, OperatorRequest, ReleaseView, RequestState};
use crate::ports::PortResult;

/// Releases this node's lock: if `only` is given, only if it is the owner. A request for the lock that is
/// still open fails first, so that it cannot take the lock afterwards.
///
/// # Errors
/// If the locks cannot be stored. The lock is still held then.
pub(crate) fn release(agent: &Agent, only: Option<&LockOwner>) -> PortResult<ReleaseView> {
    let means = |owner: &LockOwner| only.is_none_or(|only| only == owner);
    let asked = |request: &OperatorRequest| matches!(request, OperatorRequest::RebootLock { owner, .. } if means(owner));
    agent.shared.set_request_state(
        asked,
        RequestState::Failed,
        "the reboot lock was released meanwhile",
    );
    let changed = agent
        .shared
        .update_reboot_locks(agent.ports.state.as_ref(), |locks| {
            let held = locks.own.hold.as_ref().is_some_and(|hold| means(&hold.owner));
            if held {
                locks.own = locks.own.released();
            }
            Ok(held)
        })?;
    if changed {
        tracing::warn!("the reboot lock of this host was released");
    }
    Ok(ReleaseView {
        node: agent.spec.node.clone(),
        changed,
    })
}
