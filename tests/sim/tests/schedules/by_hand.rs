//! Members that are started by hand: no agent assigns them.

use std::collections::BTreeMap;

use etcd_agent::model::{
    Assignment, Epoch, FirstStart, Generation, InitialState, NodeName, RaftTerm, Role, cluster_id_of,
    member_id_of,
};
use etcd_agent_sim::world::{Truth, World};

/// Starts etcd on `host` as one of `hosts`. `truth` holds the facts of their cluster, and is used if none are
/// recorded yet.
pub(crate) fn start(
    world: &mut World,
    host: usize,
    state: InitialState,
    hosts: &[usize],
    token: &str,
    truth: Truth,
) {
    let initial_cluster: BTreeMap<NodeName, Vec<String>> = hosts
        .iter()
        .map(|host| (world.hosts[*host].name.clone(), vec![World::peer_url(*host)]))
        .collect();
    let cluster_id = cluster_id_of(&initial_cluster, token);
    world.truths.entry(cluster_id).or_insert(truth);
    world.hosts[host].written = Some(Assignment {
        generation: Generation(1),
        epoch: Epoch(1),
        node: world.hosts[host].name.clone(),
        member_id: member_id_of(&[World::peer_url(host)], token),
        cluster_id,
        token: token.to_owned(),
        role: Role::Founder,
        initial_state: state,
        initial_cluster,
        data_dir: "/var/lib/etcd/default".into(),
        wal_dir: None,
        started: false,
        removed: false,
        listed: RaftTerm(0),
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: None,
        settings_digest: String::new(),
        etcd_version: None,
    });
    world.start_unit(host);
}
