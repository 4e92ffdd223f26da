//! Steps and states as text for people.

use crate::parts::Request;
use crate::state::State;
use crate::steps::Step;
use crate::symmetry::name;
use crate::world::World;

/// Output for people.
impl World {
    pub(crate) fn describe(&self, state: State, step: Step) -> String {
        match step {
            Step::Arrives { request, at } => {
                let what = match self.requests.get(request) {
                    Request::Prepare(m) => format!("prepare {} of epoch {}", m.ballot, m.epoch),
                    Request::Accept(m) => format!("accept {} of {}", m.ballot, m.genesis.token),
                    Request::Enquire(m) => format!("enquiry of {} ({})", m.from, m.incarnation),
                };
                format!("{}: {what} arrives", name(at))
            }
            Step::Begins { node, round } => format!("{}: begins round {round}", name(node)),
            Step::GoesOn { node, .. } => format!("{}: has its promises, goes on", name(node)),
            Step::Asks { node } => format!("{}: asks the others", name(node)),
            Step::Absorbs { node } => format!("{}: takes in the answers", name(node)),
            Step::Learns { node, which } => {
                let token = &self.notes.get(state.notes).chosen[which].token;
                format!("{}: learns {token}", name(node))
            }
            Step::LosesMemory { node } => format!("{}: LOSES ITS MEMORY", name(node)),
            Step::Forgets { node } => format!("{}: forgets at a restart", name(node)),
        }
    }

    pub(crate) fn show(&self, state: State) -> String {
        let json = |thing: Result<String, serde_json::Error>| thing.unwrap();
        (0..self.bounds.nodes)
            .map(|node| {
                format!(
                    "{}: {}\n    {}",
                    name(node),
                    json(serde_json::to_string(self.electors.get(state.electors[node]))),
                    json(serde_json::to_string(self.processes.get(state.processes[node])))
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    }
}
