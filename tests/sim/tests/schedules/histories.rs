//! Compares the model's answers with those in `histories.txt`. `tests/lab/tests/hosts/model.rs` requires the
//! same answers from real etcd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use etcd_agent::model::{ActiveState, Epoch, InitialState, MemberId, NodeName};
use etcd_agent_sim::world::{Refused, Truth, World};

use crate::by_hand;

/// The most hosts of a history.
const HOSTS: usize = 6;
/// A request is repeated for this long until it succeeds.
const ASK_MS: u64 = 20_000;
/// After this time the others know that a process is dead.
const NOTICED_MS: u64 = 1000;
/// After this time the result of a step is final.
const SETTLE_MS: u64 = 10_000;

struct Model {
    world: World,
    /// L, F1, F2, ... as of the last `leader`.
    roles: BTreeMap<String, usize>,
    /// The members by host, as last seen in a list.
    ids: BTreeMap<usize, MemberId>,
    acknowledged: Vec<u32>,
    next: u32,
}

impl Model {
    fn new() -> Self {
        let names: Vec<NodeName> = (1..=HOSTS)
            .map(|number| NodeName::new(format!("n{number}")).expect("a name"))
            .collect();
        let mut world = World::new(1, &names, None, false);
        world.writing = false;
        Self {
            world,
            roles: BTreeMap::new(),
            ids: BTreeMap::new(),
            acknowledged: Vec::new(),
            next: 1,
        }
    }

    /// The answer to one step, if it has one.
    fn step(&mut self, words: &[&str]) -> Option<String> {
        let answer = match words {
            ["form", hosts, rest @ ..] => {
                let hosts = self.hosts(hosts);
                self.roles.clear();
                for host in &hosts {
                    self.start(*host, InitialState::New, &hosts, rest);
                }
                let states: BTreeSet<&str> = hosts.iter().map(|host| self.state(*host)).collect();
                states.into_iter().collect::<Vec<_>>().join(",")
            }
            ["start", host, state, hosts, rest @ ..] => {
                let (host, hosts) = (self.host(host), self.hosts(hosts));
                let state = match *state {
                    "new" => InitialState::New,
                    "existing" => InitialState::Existing,
                    other => panic!("no initial cluster state: {other}"),
                };
                self.start(host, state, &hosts, rest);
                self.state(host).to_owned()
            }
            ["state", host] => {
                let host = self.host(host);
                self.state(host).to_owned()
            }
            ["leader"] => self.leader().to_owned(),
            ["tells", host] => {
                let host = self.host(host);
                self.pass(SETTLE_MS);
                match self.world.status(host) {
                    Ok(status) if status.leader == Some(status.member_id) => "leads",
                    Ok(status) if status.leader.is_some() => "follows",
                    Ok(_) => "none",
                    Err(_) => "down",
                }
                .to_owned()
            }
            ["write", host] => {
                let host = self.host(host);
                self.write(host).to_owned()
            }
            ["read", host] => {
                let host = self.host(host);
                self.read(host).to_owned()
            }
            ["members", host] => {
                let host = self.host(host);
                self.pass(SETTLE_MS);
                self.members(host)
            }
            [what @ ("add" | "remove" | "promote" | "move"), host, target] => {
                let (host, target) = (self.host(host), self.host(target));
                self.change(what, host, target).to_owned()
            }
            ["kill", host] => {
                let host = self.host(host);
                self.world.stop_unit(host, false);
                self.pass(NOTICED_MS);
                return None;
            }
            ["wipe", host] => {
                let host = self.host(host);
                self.world.hosts[host].dir = None;
                return None;
            }
            other => panic!("no step: {other:?}"),
        };
        Some(answer)
    }

    fn host(&self, word: &str) -> usize {
        self.roles
            .get(word)
            .copied()
            .or_else(|| self.world.hosts.iter().position(|h| h.name.as_str() == word))
            .unwrap_or_else(|| panic!("no host {word}"))
    }

    fn hosts(&self, words: &str) -> Vec<usize> {
        words.split(',').map(|word| self.host(word)).collect()
    }

    fn pass(&mut self, ms: u64) {
        let end = self.world.now + ms;
        while self.world.now < end {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.world.now += 100;
        self.world.tick();
    }

    fn start(&mut self, host: usize, state: InitialState, hosts: &[usize], rest: &[&str]) {
        let token = rest.first().copied().unwrap_or("history");
        let truth = Truth {
            epoch: Epoch(1),
            // Histories do what no agent may do, so the safety rules are not checked here.
            tainted: true,
            ..Truth::default()
        };
        by_hand::start(&mut self.world, host, state, hosts, token, truth);
    }

    fn state(&mut self, host: usize) -> &'static str {
        self.pass(SETTLE_MS);
        match self.world.unit_state(host).active {
            ActiveState::Active => "serves",
            ActiveState::Activating => "hangs",
            _ => "exits",
        }
    }

    fn leader(&mut self) -> &'static str {
        for _ in 0..ASK_MS / 100 {
            let leads = |host: &usize| self.world.hosts[*host].server.as_ref().is_some_and(|s| s.leads);
            let leaders: Vec<usize> = (0..HOSTS).filter(leads).collect();
            if let [leader] = leaders.as_slice() {
                let others =
                    (0..HOSTS).filter(|host| host != leader && self.world.hosts[*host].server.is_some());
                self.roles = others
                    .enumerate()
                    .map(|(at, host)| (format!("F{}", at + 1), host))
                    .collect();
                self.roles.insert("L".to_owned(), *leader);
                let leader = *leader;
                let _ = self.members(leader);
                return "one";
            }
            self.tick();
        }
        "none"
    }

    fn write(&mut self, host: usize) -> &'static str {
        for _ in 0..ASK_MS / 100 {
            let number = self.next;
            self.next += 1;
            if self.world.write(host, number).is_some() {
                self.acknowledged.push(number);
                return "ok";
            }
            self.tick();
        }
        "no"
    }

    fn read(&mut self, host: usize) -> &'static str {
        for _ in 0..ASK_MS / 100 {
            if let Ok(leader) = self.world.leader_behind(host)
                && let Some(dir) = &self.world.hosts[leader].dir
            {
                let there: BTreeSet<u32> = dir.writes().collect();
                let all = self.acknowledged.iter().all(|number| there.contains(number));
                return if all { "all" } else { "missing" };
            }
            self.tick();
        }
        "no"
    }

    fn members(&mut self, host: usize) -> String {
        let Ok(list) = self.world.members(host, true) else {
            return "no".to_owned();
        };
        let mut shown = Vec::new();
        for member in list.members {
            let host = self.world.host_at(&member.peer_urls[0]).expect("its host");
            self.ids.insert(host, member.id);
            let role = self.roles.iter().find(|(_, of)| **of == host);
            let mut text = role.map_or_else(
                || self.world.hosts[host].name.to_string(),
                |(role, _)| role.clone(),
            );
            if member.is_learner {
                text.push('*');
            }
            if member.name.is_empty() {
                text = format!("({text})");
            }
            // L comes first, and hosts without a role last.
            let order = role.map_or(2, |(role, _)| i32::from(role != "L"));
            shown.push((order, text));
        }
        shown.sort();
        shown
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn change(&mut self, what: &str, host: usize, target: usize) -> &'static str {
        let _ = self.members(host);
        let id = self.ids.get(&target).copied().unwrap_or(MemberId(0));
        let mut answer = Ok(());
        for _ in 0..ASK_MS / 100 {
            answer = match what {
                "add" => self.world.add_learner(host, &World::peer_url(target)).map(drop),
                "remove" => self.world.remove_member(host, id),
                "promote" => self.world.promote(host, id),
                _ => self.world.move_leader(host, id),
            };
            if answer.is_ok() {
                break;
            }
            self.tick();
        }
        match answer {
            Ok(()) => "ok",
            Err(Refused::Says(text)) => kind(text),
            Err(_) => "no",
        }
    }
}

/// etcd's error text in short; the lab's test has the same list.
fn kind(text: &str) -> &'static str {
    const KINDS: &[(&str, &str)] = &[
        ("unhealthy cluster", "unhealthy"),
        ("not enough started members", "not enough started"),
        ("in sync with leader", "not ready"),
        ("can only promote a learner", "no learner"),
        ("member not found", "not found"),
        ("Peer URLs already exists", "exists"),
        ("too many learner members", "too many learners"),
        ("not leader", "not leader"),
    ];
    let found = KINDS.iter().find(|(words, _)| text.contains(words));
    found.unwrap_or_else(|| panic!("unknown error: {text}")).1
}

#[test]
fn the_answers_in_histories_txt_are_the_models() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("histories.txt");
    let text = std::fs::read_to_string(&path).expect("histories.txt");
    let mut model = Model::new();
    let mut fresh = String::new();
    for line in text.lines() {
        let (step, _) = line.split_once(" => ").unwrap_or((line, ""));
        fresh.push_str(step);
        if line.starts_with("= ") {
            model = Model::new();
        } else if !line.is_empty() && !line.starts_with('#') {
            let words: Vec<&str> = step.split(' ').collect();
            if let Some(answer) = model.step(&words) {
                fresh.push_str(" => ");
                fresh.push_str(&answer);
            }
        }
        fresh.push('\n');
    }
    let differ: Vec<(&str, &str)> = text
        .lines()
        .zip(fresh.lines())
        .filter(|(was, is)| was != is)
        .collect();
    if !differ.is_empty() {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histories.txt");
        std::fs::write(&new, &fresh).expect("the fresh answers");
        panic!(
            "the model's answers differ; the new ones are in {}: {differ:#?}",
            new.display()
        );
    }
}
