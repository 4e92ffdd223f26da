//! etcd's own robustness traffic and validators: one short round. `make robust` runs longer ones.

use std::time::Duration;

use crate::common::deb;
use etcd_agent_lab::Robust;

#[test]
fn s60_etcds_own_validators_accept_what_clients_saw_while_agents_worked() {
    let round = Robust {
        etcd: "3.6.16".to_owned(),
        traffic: "kubernetes".to_owned(),
        hosts: 3,
        duration: Duration::from_secs(25),
        seed: 1,
        operations: 8,
    };
    round.run(&deb()).unwrap();
}
