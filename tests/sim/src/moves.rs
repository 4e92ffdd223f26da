//! People who move the cluster to another version, as `etcd-agent move` does, and give the command again if it is
//! interrupted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use etcd_agent::agent::Agent;
use etcd_agent::model::{
    BackupId, EpochEtcd, EtcdVersion, OperatorRequest, QuarantineOrder, RequestState, UnixMs,
};
use etcd_agent::ports::AgentHandle;

use crate::sim::Sim;
use crate::world::VERSIONS;

/// How long a person waits for each step.
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(300);

/// A person types `move --to` on this host, unless a move is under way.
pub(crate) fn start(sim: &Arc<Sim>, host: usize, to: EtcdVersion) {
    run(sim, host, Some(to));
}

/// A person sees that the cluster is in quarantine, and goes on or cancels. Moves to another version where that is
/// refused for a vote, as the refusal asks for.
pub(crate) fn resume(sim: &Arc<Sim>, host: usize) {
    let to = {
        let mut world = sim.world();
        let again = world.rng.chance(50);
        let to = world.moves.to;
        if world.moves.voted {
            VERSIONS.into_iter().find(|version| Some(*version) != to)
        } else {
            to.filter(|_| again)
        }
    };
    run(sim, host, to);
}

/// A person cancels the move of another person, and may begin one a moment later, without the other's knowledge.
pub(crate) fn cancel(sim: &Arc<Sim>, host: usize) {
    let sim = sim.clone();
    tokio::spawn(async move {
        let ended = end(&sim, host).await;
        let (again, pause) = {
            let mut world = sim.world();
            let again = world.rng.chance(50);
            let again = world.moves.to.filter(|_| again && ended.is_ok());
            (again, Duration::from_millis(world.rng.range(50, 300)))
        };
        if let (Some(to), Some(agent)) = (again, sim.agent(host)) {
            tokio::time::sleep(pause).await;
            // Its outcome does not matter.
            let _ = order(&agent, &begin(to)).await;
        }
        sim.world()
            .tell(|w| format!("   a move is cancelled on {}: {ended:?}", w.hosts[host].name));
    });
}

fn run(sim: &Arc<Sim>, host: usize, to: Option<EtcdVersion>) {
    {
        let mut world = sim.world();
        if world.moves.under_way {
            return;
        }
        world.moves.under_way = true;
        world.moves.to = to.or(world.moves.to);
    }
    let sim = sim.clone();
    tokio::spawn(async move {
        let ended = match to {
            Some(to) => move_to(&sim, host, to).await,
            None => end(&sim, host).await.map(|()| "cancelled"),
        };
        let mut world = sim.world();
        world.moves.under_way = false;
        world.moves.voted = ended.as_ref().is_err_and(|why| why.contains("may have voted"));
        world.tell(|w| format!("   a move of {} to {to:?}: {ended:?}", w.hosts[host].name));
        world.saw("event", &format!("a move is {}", ended.unwrap_or("interrupted")));
    });
}

async fn move_to(sim: &Arc<Sim>, host: usize, to: EtcdVersion) -> Result<&'static str, String> {
    let opened = {
        let world = sim.world();
        let etcd = world.newest().and_then(|newest| newest.genesis.etcd);
        etcd.is_some_and(|etcd| etcd.continues && etcd.version == to)
    };
    if opened && quarantined(sim) {
        await_version(sim, to).await?;
        end(sim, host).await?;
        return Ok("done");
    }
    let agent = sim.agent(host).ok_or("the agent does not run")?;
    order(&agent, &begin(to)).await?;
    let taken = request(sim, host, OperatorRequest::Backup).await?;
    let name = taken.split_whitespace().next().unwrap_or_default();
    let backup = BackupId::new(name).map_err(|error| format!("{taken:?}: {error}"))?;
    sim.world().asked.insert(backup.clone());
    let restore = OperatorRequest::Restore {
        backup,
        without: BTreeSet::new(),
        replace: None,
        etcd: Some(EpochEtcd {
            version: to,
            continues: true,
        }),
        above: None,
        asked: UnixMs::default(),
    };
    request(sim, host, restore).await?;
    await_version(sim, to).await?;
    end(sim, host).await?;
    Ok("done")
}

fn begin(to: EtcdVersion) -> QuarantineOrder {
    QuarantineOrder::Begin {
        to,
        dry_run: false,
        include_v2: false,
    }
}

fn quarantined(sim: &Sim) -> bool {
    let world = sim.world();
    (0..world.hosts.len()).any(|host| world.hosts[host].server.is_some() && world.knows_quarantine(host))
}

async fn end(sim: &Arc<Sim>, host: usize) -> Result<(), String> {
    let agent = sim.agent(host).ok_or("the agent does not run")?;
    order(&agent, &QuarantineOrder::End { force: false }).await
}

/// A call of an agent that dies meanwhile never returns.
async fn order(agent: &Agent, order: &QuarantineOrder) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, agent.quarantine(order)).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn await_version(sim: &Arc<Sim>, to: EtcdVersion) -> Result<(), String> {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !sim.world().all_run(Some(to)) {
        if tokio::time::Instant::now() > until {
            return Err("not all members run it".to_owned());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Waits for the answer to a request.
async fn request(sim: &Arc<Sim>, host: usize, request: OperatorRequest) -> Result<String, String> {
    let agent = sim.agent(host).ok_or("the agent does not run")?;
    let run = sim.world().hosts[host].run;
    let view = agent.submit(request).map_err(|error| error.to_string())?;
    drop(agent);
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        tokio::time::sleep(LOOK).await;
        if sim.world().hosts[host].run != run {
            return Err("its agent died".to_owned());
        }
        let now = sim.agent(host).and_then(|agent| agent.request(view.id));
        match now {
            Some(now) if now.state == RequestState::Done => return Ok(now.message),
            Some(now) if now.state == RequestState::Failed => return Err(now.message),
            _ if tokio::time::Instant::now() > until => return Err("no answer in time".to_owned()),
            _ => {}
        }
    }
}
