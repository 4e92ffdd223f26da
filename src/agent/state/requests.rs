//! Takes requests of operators, and keeps their progress.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::state::Shared;
use crate::agent::state::request_list::{Begun, RequestList, set};
use crate::model::{Epoch, OperatorRequest, RequestState, RequestView};
use crate::ports::PortResult;

impl Shared {
    /// As [`RequestList::submit`].
    pub(crate) fn submit(
        &self,
        request: OperatorRequest,
        taken: bool,
        changes: bool,
    ) -> PortResult<RequestView> {
        let view = self.with_requests(|requests| requests.submit(request, taken, changes))?;
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
