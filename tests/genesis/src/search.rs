//! Breadth-first search that visits every state once.

use crate::fast::hash;
use crate::state::State;
use crate::steps::Step;
use crate::world::{Bounds, Violation, World};

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Found {
    /// The number of different states. States that differ only in the names of nodes that never propose count
    /// as one.
    pub states: usize,
    /// The number of states in which some genesis has been chosen.
    pub chosen: usize,
    /// The maximum number of steps from the start.
    pub depth: usize,
    /// The first violation: its description, and the shortest path to it, one step per line.
    pub violation: Option<String>,
}

/// Maps numbers to states and states to numbers: a hash table with open addressing.
struct Seen {
    states: Vec<State>,
    /// For each state, the state from which it was first reached.
    before: Vec<u32>,
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Seen {
    fn new() -> Self {
        Self {
            states: Vec::new(),
            before: Vec::new(),
            slots: vec![FREE; 1 << 16],
        }
    }

    fn slot(slots: &[u32], states: &[State], state: &State) -> usize {
        let mask = slots.len() - 1;
        let mut at = usize::try_from(hash(state) & mask as u64).expect("a slot");
        while slots[at] != FREE && states[slots[at] as usize] != *state {
            at = (at + 1) & mask;
        }
        at
    }

    /// Adds a state. True if it is new.
    fn insert(&mut self, state: State, before: u32) -> bool {
        let at = Self::slot(&self.slots, &self.states, &state);
        if self.slots[at] != FREE {
            return false;
        }
        self.slots[at] = u32::try_from(self.states.len()).expect("fewer than 2^32 states");
        self.states.push(state);
        self.before.push(before);
        if self.states.len() * 2 > self.slots.len() {
            let mut slots = vec![FREE; self.slots.len() * 2];
            for (number, state) in self.states.iter().enumerate() {
                let at = Self::slot(&slots, &self.states, state);
                slots[at] = u32::try_from(number).expect("fewer than 2^32 states");
            }
            self.slots = slots;
        }
        true
    }
}

/// Explores every state within the bounds, until the first violation.
///
/// # Panics
/// If there are more states than the bounds allow.
pub fn explore(bounds: &Bounds) -> Found {
    let mut world = World::new(bounds.clone());
    let mut seen = Seen::new();
    let start = world.start();
    let start = world.canonical(start);
    seen.insert(start, FREE);
    let mut found = Found {
        states: 1,
        chosen: 0,
        depth: 0,
        violation: None,
    };
    let mut next = Vec::new();
    let mut level_ends = 1;
    let mut at = 0;
    while at < seen.states.len() {
        if at == level_ends {
            found.depth += 1;
            level_ends = seen.states.len();
        }
        let state = seen.states[at];
        found.chosen += usize::from(world.has_chosen(state));
        let number = u32::try_from(at).expect("fewer than 2^32 states");
        at += 1;
        if world.is_settled(state) {
            continue;
        }
        next.clear();
        if let Err(Violation(what)) = world.next(state, &mut next) {
            found.violation = Some(format!("{what}\n{}", trace(&mut world, &seen, number)));
            break;
        }
        for (_, after) in &next {
            let after = world.canonical(*after);
            seen.insert(after, number);
        }
        assert!(
            seen.states.len() <= bounds.most_states,
            "more than {} states within {bounds:?}",
            bounds.most_states
        );
    }
    found.states = seen.states.len();
    found
}

/// The path to a state, and the state itself.
fn trace(world: &mut World, seen: &Seen, last: u32) -> String {
    let mut way = vec![last];
    while let Some(before) = way
        .last()
        .map(|at| seen.before[*at as usize])
        .filter(|b| *b != FREE)
    {
        way.push(before);
    }
    way.reverse();
    let mut lines = Vec::new();
    for pair in way.windows(2) {
        let (from, to) = (seen.states[pair[0] as usize], seen.states[pair[1] as usize]);
        let mut next = Vec::new();
        let taken: Option<Step> = match world.next(from, &mut next) {
            Ok(()) => next
                .iter()
                .find(|(_, after)| world.canonical(*after) == to)
                .map(|(step, _)| *step),
            Err(_) => None,
        };
        lines.push(taken.map_or_else(|| "?".to_owned(), |step| world.describe(from, step)));
    }
    lines.push(format!(
        "then, as the next step, from\n{}",
        world.show(seen.states[last as usize])
    ));
    lines.join("\n")
}
