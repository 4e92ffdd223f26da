//! Whether a node may be stopped is answered from looks that begin after the question.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use etcd_agent::agent::Agent;
use etcd_agent::model::StopVerdict;
use etcd_agent::ports::AgentHandle;
use etcd_agent_sim::Schedule;
use etcd_agent_sim::ports::{Board, Seat, ports};
use etcd_agent_sim::sim::Sim;
use etcd_agent_sim::spec::{name, spec};
use etcd_agent_sim::world::{AgentState, World};

/// Lets time pass in the world.
async fn pass(sim: &Sim, ms: u64) {
    for _ in 0..ms / 100 {
        sim.world().now += 100;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What n1 answers while time passes.
async fn ask(sim: &Sim, n1: &Agent) -> StopVerdict {
    let asked = tokio::spawn({
        let n1 = n1.clone();
        async move { n1.ok_to_stop(name(1)).await }
    });
    pass(sim, 10_000).await;
    asked.await.unwrap().unwrap()
}

/// Whether the answer says that this node's agent gave no answer.
fn misses(verdict: &StopVerdict, node: usize) -> bool {
    let node = name(node).unwrap();
    let silent = verdict
        .reasons
        .iter()
        .filter(|reason| reason.code == "agent-silent");
    silent
        .map(|reason| &reason.text)
        .any(|text| text.contains(node.as_str()))
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_look_again_gives_no_answer() {
    let schedule = Schedule::calm(1, 3, 3, false);
    let names: Vec<_> = (0..3).filter_map(name).collect();
    let sim = Sim::new(World::new(1, &names, None, false));
    let agent = |host: usize| {
        {
            let mut world = sim.world();
            world.hosts[host].agent = AgentState::Alive;
            world.hosts[host].run = 1;
        }
        let spec = spec(&schedule, host).unwrap();
        let seat = Seat::new(sim.clone(), host, 1, 1);
        let board = Board::new(spec.nodes.keys().filter(|n| **n != spec.node).cloned());
        let agent = Agent::over(ports(&seat, &board), spec, format!("boot-{host}")).unwrap();
        sim.set_agent(host, Some(agent.clone()));
        agent
    };
    let (n1, n2) = (agent(0), agent(1));
    let loops = [&n1, &n2].map(|agent| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.run_loop().await })
    });
    pass(&sim, 1_000).await;

    let begun = sim.world().now;
    let verdict = ask(&sim, &n1).await;
    assert!(
        !verdict.ok && misses(&verdict, 2) && !misses(&verdict, 1),
        "{verdict:?}"
    );
    let looked = n2.plan_view().unwrap().observation.steady.0;
    assert!(looked >= begun, "n2 looked at {looked}, asked at {begun}");

    // Its last status is still there, and is no answer.
    sim.world().hosts[1].unreadable = true;
    let verdict = ask(&sim, &n1).await;
    assert!(misses(&verdict, 1), "{verdict:?}");
    for looping in loops {
        looping.abort();
    }
}
