//! The objects in the store, and their keys.

pub(super) mod catalogue;
pub(super) mod chain;
pub(super) mod change_marks;
pub(super) mod cluster_spec;
pub(super) mod copy;
pub(super) mod epochs;
pub(super) mod etcd_manager;
pub(super) mod layout;
mod listing;
pub(super) mod manifest;
pub(super) mod marks;
pub(super) mod prune;
pub(super) mod recent;
pub(super) mod same_cluster;
pub(super) mod timelines;
pub(super) mod verification;
pub(super) mod view;
