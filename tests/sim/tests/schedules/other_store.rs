//! A new memory, while another node names another store.
#![allow(clippy::unwrap_used)]

use etcd_agent::agent::Agent;
use etcd_agent_sim::Schedule;
use etcd_agent_sim::ports::{Board, Seat, ports, watch};
use etcd_agent_sim::sim::Sim;
use etcd_agent_sim::spec::{name, spec};
use etcd_agent_sim::world::{AgentState, Store, World};

/// n1 was reinstalled, n2 is silent, and n3 names another store than n1.
async fn gets_its_vote_despite_another_store(n3_is_ordered_out: bool) -> bool {
    let schedule = Schedule::calm(1, 3, 3, true);
    let names: Vec<_> = (0..3).filter_map(name).collect();
    let sim = Sim::new(World::new(1, &names, Some(Store::new()), false));
    {
        let mut world = sim.world();
        for host in [0, 2] {
            world.hosts[host].agent = AgentState::Alive;
            world.hosts[host].run = 1;
        }
        world.hosts[2].differs = true;
        if n3_is_ordered_out {
            world.hosts[0].directives.out.insert(names[2].clone());
        }
    }
    let agent = |host: usize| {
        let mut spec = spec(&schedule, host).unwrap();
        if host == 2 {
            "sim://other".clone_into(&mut spec.shared_store);
        }
        let seat = Seat::new(sim.clone(), host, 1, 1);
        let board = Board::new(spec.nodes.keys().filter(|n| **n != spec.node).cloned());
        let agent = Agent::over(ports(&seat, &board), spec, format!("boot-{host}")).unwrap();
        sim.set_agent(host, Some(agent.clone()));
        (seat, board, agent)
    };
    let (seat, board, n1) = agent(0);
    let _n3 = agent(2);
    let watches = tokio::spawn(watch(seat, board, 2));
    let loops = tokio::spawn(async move { n1.run_loop().await });
    for _ in 0..300 {
        sim.world().now += 100;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    watches.abort();
    loops.abort();
    let elector = sim.world().hosts[0].elector.clone();
    elector.is_some_and(|record| record.eligible)
}

#[tokio::test(start_paused = true)]
async fn c10_a_node_that_is_ordered_out_keeps_no_new_memory_from_its_vote() {
    assert!(gets_its_vote_despite_another_store(true).await);
    assert!(
        !gets_its_vote_despite_another_store(false).await,
        "n3 may record epochs elsewhere"
    );
}
