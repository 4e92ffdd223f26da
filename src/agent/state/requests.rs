//! Takes requests of operators, and keeps their progress.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::state::Shared;
use crate::agent::state::request_list::{Begun, RequestList};
use crate::model::{Epoch, OperatorRequest, RequestState, RequestView};
use crate::ports::{PortError, PortResult};

/// The message of a request before the first tick that sees it.
pub(crate) const QUEUED: &str = "queued";

/// Bound on pending requests. More than this indicates a mistake.
const REQUESTS_LIMIT: usize = 16;
/// Bound on equal requests that are under way. They must not keep out others.
const EQUAL_LIMIT: usize = 2;
/// How many ended requests are kept.
const ENDED_LIMIT: usize = 64;

impl Shared {
    /// Queues an operator's request. A request that was `taken` over from another node is not handed over
    /// again. `changes` is false if what it asks for is so already.
    pub(crate) fn submit(
        &self,
        request: OperatorRequest,
        taken: bool,
        changes: bool,
    ) -> PortResult<RequestView> {
        let view = self.with_requests(|requests| {
            let pending = requests.all.values().filter(|r| r.state == RequestState::Pending);
            if pending.clone().count() >= REQUESTS_LIMIT {
                return Err(PortError::Retryable(format!(
                    "{REQUESTS_LIMIT} requests are under way already"
                )));
            }
            let restoring = |r: &OperatorRequest| matches!(r, OperatorRequest::Restore { .. });
            if restoring(&request) && pending.clone().any(|r| restoring(&r.request)) {
                return Err(PortError::Permanent(
                    "a restore is under way already; wait for it".to_owned(),
                ));
            }
            let moving = |r: &OperatorRequest| matches!(r, OperatorRequest::MoveLeader { .. });
            if moving(&request) && pending.clone().any(|r| moving(&r.request)) {
                return Err(PortError::Permanent(
                    "another move of the leader is under way already; wait for it".to_owned(),
                ));
            }
            if let OperatorRequest::RebootLock { owner, .. } = &request {
                let owner_of = |r: &RequestView| match &r.request {
                    OperatorRequest::RebootLock { owner, .. } => Some(owner.clone()),
                    _ => None,
                };
                let mut pending = pending.clone();
                if let Some((view, other)) = pending.find_map(|r| Some((r, owner_of(r)?))) {
                    return if other == *owner {
                        Ok(view.clone())
                    } else {
                        Err(PortError::Permanent(format!(
                            "a request for the reboot lock by {other} is under way already"
                        )))
                    };
                }
            }
            // One that is under way may miss what has happened since it began.
            let under_way = |id: &u64| requests.handed.contains(id) || requests.begun.contains(id);
            let equal = pending.filter(|r| r.request == request);
            if let Some(waiting) = equal.clone().find(|r| !under_way(&r.id)) {
                return Ok(waiting.clone());
            }
            if equal.count() >= EQUAL_LIMIT {
                return Err(PortError::Retryable(format!(
                    "{EQUAL_LIMIT} such orders are under way already: wait for them"
                )));
            }
            requests.newest += 1;
            let id = requests.newest;
            let view = RequestView {
                id,
                request,
                state: RequestState::Pending,
                message: QUEUED.to_owned(),
                changed: changes,
            };
            requests.all.insert(id, view.clone());
            if taken {
                requests.taken.insert(id);
            }
            let ended: Vec<u64> = requests
                .all
                .values()
                .filter(|r| r.state != RequestState::Pending)
                .map(|r| r.id)
                .collect();
            for id in ended.iter().take(ended.len().saturating_sub(ENDED_LIMIT)) {
                requests.all.remove(id);
                requests.taken.remove(id);
                requests.begun.remove(id);
            }
            Ok(view)
        })?;
        self.wake.notify_one();
        Ok(view)
    }

    pub(crate) fn request(&self, id: u64) -> Option<RequestView> {
        self.with_requests(|requests| requests.all.get(&id).cloned())
    }

    pub(crate) fn pending(&self) -> Vec<RequestView> {
        self.with_requests(|requests| {
            requests
                .all
                .values()
                .filter(|r| r.state == RequestState::Pending)
                .cloned()
                .collect()
        })
    }

    /// Sets the epoch that a restore replaces on requests that were made while it was not known.
    pub(crate) fn ask_above(&self, newest: Option<Epoch>) {
        self.with_requests(|requests| {
            for view in requests.all.values_mut() {
                if let OperatorRequest::Restore { above, .. } = &mut view.request {
                    *above = above.or(newest);
                }
            }
        });
    }

    /// The pending requests that this node decides on.
    pub(crate) fn undecided(&self) -> Vec<RequestView> {
        let handed = self.with_requests(|requests| requests.handed.clone());
        let mut pending = self.pending();
        pending.retain(|request| !handed.contains(&request.id));
        pending
    }

    /// Notes that another node carries this request out. `None` when it is no longer pending, or is handed
    /// over already. A request that was handed over to this node fails instead: the leader has changed, and
    /// two nodes must not hand it back and forth.
    pub(crate) fn hand_over(&self, request: &OperatorRequest) -> Option<u64> {
        self.with_requests(|requests| {
            let mut pending = requests
                .all
                .values_mut()
                .filter(|r| r.state == RequestState::Pending && r.request == *request)
                .filter(|r| !requests.handed.contains(&r.id));
            let view = pending.next()?;
            if requests.taken.contains(&view.id) {
                view.state = RequestState::Failed;
                "the raft leader has moved meanwhile: ask again".clone_into(&mut view.message);
                return None;
            }
            requests.handed.insert(view.id).then_some(view.id)
        })
    }

    /// Updates a request that another node carries out. `changed` is that node's answer.
    pub(crate) fn handed(&self, id: u64, state: RequestState, message: &str, changed: bool) {
        self.with_requests(|requests| {
            let ended = state != RequestState::Pending;
            if ended {
                requests.handed.remove(&id);
            }
            if let Some(request) = requests.all.get_mut(&id)
                && request.state == RequestState::Pending
            {
                request.state = state;
                // That node knows better what was so already.
                if ended {
                    request.changed = changed;
                }
                message.clone_into(&mut request.message);
            }
        });
    }

    /// Notes that a job begins to carry out the pending requests of this kind. It answers no later ones, because it may
    /// miss what has happened before them: a backup lacks what was written after its snapshot.
    pub(crate) fn begin(&self, which: impl Fn(&OperatorRequest) -> bool) -> Begun {
        self.with_requests(|requests| {
            let RequestList {
                all, handed, begun, ..
            } = requests;
            let ids: Vec<u64> = undecided(all, handed, which).map(|view| view.id).collect();
            begun.extend(&ids);
            Begun(ids)
        })
    }

    /// Updates the requests that a job has begun to carry out.
    pub(crate) fn set_begun(&self, begun: &Begun, state: RequestState, message: &str) {
        self.for_each_begun(begun, |view| set(view, state, message));
    }

    /// Notes that the requests which a job has begun to carry out change nothing: it is so already.
    pub(crate) fn note_unchanged(&self, begun: &Begun) {
        self.for_each_begun(begun, |view| view.changed = false);
    }

    /// Updates the pending requests of this kind.
    pub(crate) fn set_request_state(
        &self,
        which: impl Fn(&OperatorRequest) -> bool,
        state: RequestState,
        message: &str,
    ) {
        self.with_requests(|requests| {
            undecided(&mut requests.all, &requests.handed, which).for_each(|view| set(view, state, message));
        });
    }

    fn for_each_begun(&self, begun: &Begun, update: impl Fn(&mut RequestView)) {
        self.with_requests(|requests| {
            let later = |view: &RequestView| mutant!(AnswersLater) && view.request == OperatorRequest::Backup;
            undecided(&mut requests.all, &requests.handed, |_| true)
                .filter(|view| begun.0.contains(&view.id) || later(view))
                .for_each(update);
        });
    }

    fn with_requests<T>(&self, f: impl FnOnce(&mut RequestList) -> T) -> T {
        self.with(|inner| f(&mut inner.requests))
    }
}

/// The pending requests of this kind that this node decides on.
fn undecided<'a>(
    all: &'a mut BTreeMap<u64, RequestView>,
    handed: &'a BTreeSet<u64>,
    which: impl Fn(&OperatorRequest) -> bool + 'a,
) -> impl Iterator<Item = &'a mut RequestView> {
    all.values_mut()
        .filter(|view| view.state == RequestState::Pending && !handed.contains(&view.id))
        .filter(move |view| which(&view.request))
}

fn set(view: &mut RequestView, state: RequestState, message: &str) {
    view.state = state;
    message.clone_into(&mut view.message);
}
