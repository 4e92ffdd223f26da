//! The requests of operators that this agent has taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{OperatorRequest, RequestState, RequestView};
use crate::ports::{PortError, PortResult};

/// The message of a request before the first tick that sees it.
pub(crate) const QUEUED: &str = "queued";

/// Bound on pending requests. More than this indicates a mistake.
const REQUESTS_LIMIT: usize = 16;
/// Bound on equal requests that are under way. They must not keep out others.
const EQUAL_LIMIT: usize = 2;
/// How many ended requests are kept.
const ENDED_LIMIT: usize = 64;

/// The requests, by their number.
#[derive(Debug, Default)]
pub(crate) struct RequestList {
    pub(super) all: BTreeMap<u64, RequestView>,
    /// Those that another node carries out.
    pub(super) handed: BTreeSet<u64>,
    /// Those that another node has handed over to this one.
    pub(super) taken: BTreeSet<u64>,
    /// Those that a job has begun to carry out.
    pub(super) begun: BTreeSet<u64>,
    pub(super) newest: u64,
}

impl RequestList {
    /// Queues an operator's request. A request that was `taken` over from another node is not handed over
    /// again. `changes` is false if what it asks for is so already.
    ///
    /// # Errors
    /// Retryable if too many are under way; permanent if another one excludes it.
    pub(super) fn submit(
        &mut self,
        request: OperatorRequest,
        taken: bool,
        changes: bool,
    ) -> PortResult<RequestView> {
        let pending = self.all.values().filter(|r| r.state == RequestState::Pending);
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
        let under_way = |id: &u64| self.handed.contains(id) || self.begun.contains(id);
        let equal = pending.filter(|r| r.request == request);
        if let Some(waiting) = equal.clone().find(|r| !under_way(&r.id)) {
            return Ok(waiting.clone());
        }
        if equal.count() >= EQUAL_LIMIT {
            return Err(PortError::Retryable(format!(
                "{EQUAL_LIMIT} such orders are under way already: wait for them"
            )));
        }
        self.newest += 1;
        let id = self.newest;
        let view = RequestView {
            id,
            request,
            state: RequestState::Pending,
            message: QUEUED.to_owned(),
            changed: changes,
        };
        self.all.insert(id, view.clone());
        if taken {
            self.taken.insert(id);
        }
        let ended: Vec<u64> = self
            .all
            .values()
            .filter(|r| r.state != RequestState::Pending)
            .map(|r| r.id)
            .collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_LIMIT)) {
            self.all.remove(id);
            self.taken.remove(id);
            self.begun.remove(id);
        }
        Ok(view)
    }

    /// The requests for the agent that runs after a reload. Those that are pending have failed.
    pub(super) fn carry(&mut self, why: &str) -> Self {
        let mut all = std::mem::take(&mut self.all);
        for view in all
            .values_mut()
            .filter(|view| view.state == RequestState::Pending)
        {
            set(view, RequestState::Failed, why);
        }
        Self {
            all,
            newest: self.newest,
            ..Self::default()
        }
    }
}

/// Updates a request.
pub(super) fn set(view: &mut RequestView, state: RequestState, message: &str) {
    view.state = state;
    message.clone_into(&mut view.message);
}

/// The requests that a job carries out: those that were pending when it began, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begun(pub(super) Vec<u64>);

impl Begun {
    /// True if nobody asked for what the job does.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn submit(list: &mut RequestList, request: OperatorRequest) -> PortResult<u64> {
        list.submit(request, false, true).map(|view| view.id)
    }

    #[test]
    fn a_second_equal_order_waits_for_the_one_under_way_and_a_third_is_refused() {
        let mut list = RequestList::default();
        let backup = || OperatorRequest::Backup;
        assert_eq!(submit(&mut list, backup()), Ok(1));
        assert_eq!(submit(&mut list, backup()), Ok(1), "nothing has begun yet");
        list.begun.insert(1);
        assert_eq!(
            submit(&mut list, backup()),
            Ok(2),
            "a job that runs may miss a later write"
        );
        assert_eq!(submit(&mut list, backup()), Ok(2));
        list.handed.insert(2);
        let refused = submit(&mut list, backup()).unwrap_err();
        assert!(matches!(refused, PortError::Retryable(_)), "{refused}");
        assert_eq!(
            submit(&mut list, OperatorRequest::Increment),
            Ok(3),
            "others are not kept out"
        );
        set(list.all.get_mut(&1).unwrap(), RequestState::Done, "stored");
        assert_eq!(submit(&mut list, backup()), Ok(4));
    }

    #[test]
    fn a_reload_ends_each_order_that_is_pending_and_follows_none() {
        let mut list = RequestList::default();
        for request in [OperatorRequest::Backup, OperatorRequest::Increment] {
            submit(&mut list, request).unwrap();
        }
        set(list.all.get_mut(&1).unwrap(), RequestState::Done, "stored");
        list.handed.insert(2);
        list.begun.insert(2);
        let carried = list.carry("reloaded");
        assert!(carried.handed.is_empty() && carried.begun.is_empty());
        let outcome = |id: &u64| (carried.all[id].state, carried.all[id].message.as_str());
        assert_eq!(outcome(&1), (RequestState::Done, "stored"));
        assert_eq!(outcome(&2), (RequestState::Failed, "reloaded"));
        assert_eq!(carried.newest, 2, "no number is given twice");
    }
}
