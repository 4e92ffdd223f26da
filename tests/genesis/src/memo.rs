//! A cache of the reactions of electors and rounds.

use etcd_agent::genesis::ElectorReport;
use etcd_agent::model::{Epoch, Genesis};

use crate::fast::FastMap;
use crate::state::MOST_NODES;

/// A process, a request, the sender of a reply, and the reply.
pub(crate) type Taking = (u32, u32, usize, u32);

/// A cache of the reaction of each part to another.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// By node, record and request: the record afterwards, and the reply unless it is a refusal.
    pub(crate) handled: FastMap<(usize, u32, u32), (u32, Option<u32>)>,
    /// By process, request, sender and reply: the process afterwards, and the genesis if it is chosen now.
    pub(crate) taken: FastMap<Taking, (u32, Option<Genesis>)>,
    /// By process: each possible end of its phase 1, as process and request.
    pub(crate) ends: FastMap<u32, Vec<(u32, u32)>>,
    /// By node, record and process: the record after the answers were processed.
    pub(crate) absorbed: FastMap<(usize, u32, u32), u32>,
    /// By record: its answer to an enquiry, as an index of `reports`.
    pub(crate) word: FastMap<u32, u32>,
    /// The different answers of electors.
    pub(crate) reports: Vec<ElectorReport>,
    /// By the answers of all electors, and an epoch: whether some set of them denies it.
    pub(crate) denied: FastMap<([u32; MOST_NODES], Epoch), bool>,
    /// By record, notes and index of the chosen genesis: the record after it learned that genesis.
    pub(crate) learned: FastMap<(u32, u32, usize), Option<u32>>,
    /// By node, record and notes: the new record and the notes after its memory was lost.
    pub(crate) lost: FastMap<(usize, u32, u32), (u32, u32)>,
    /// By record: the epoch that it may propose, and the lowest round that it may use.
    pub(crate) next_round: FastMap<u32, Option<(Epoch, u64)>>,
    /// By request: its sender.
    pub(crate) senders: Vec<usize>,
    /// A buffer for the requests of one state.
    pub(crate) requests: Vec<u32>,
    /// By set and request: the set with the request added.
    pub(crate) with: FastMap<(u32, u32), u32>,
}
