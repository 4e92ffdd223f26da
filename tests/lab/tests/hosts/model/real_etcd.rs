//! The etcds of one history, and its steps on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_agent_lab::{EtcdProcess, EtcdState, ask_etcd};
use serde_json::{Value, json};

/// The timeout for an event on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// An event counts as absent after this time: three of etcd's election timeouts.
const LASTING: Duration = Duration::from_secs(3);
/// A refusal counts as `unhealthy cluster` this long after the last start. Until then etcd refuses every
/// change, because it requires that its peers have been connected for 5 s (`HealthInterval`).
const CONNECTED: Duration = Duration::from_secs(6);
/// After this time the others know that a process is dead.
const NOTICED: Duration = Duration::from_secs(1);
/// etcd itself reports after 7 s that a request timed out. Until then the request may still succeed.
const REQUEST: Duration = Duration::from_secs(15);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(30);

/// One line: a step and the model's answer.
pub(super) type Step = (&'static str, &'static str);

/// The etcds of one history: n2 of the third at 127.3.0.2.
pub(super) struct Real<'a> {
    program: &'a Path,
    home: &'a Path,
    number: u8,
    /// The processes that were started and not killed, by number.
    processes: BTreeMap<u8, EtcdProcess>,
    started: Instant,
    /// L, F1, F2, ... as of the last `leader`.
    roles: BTreeMap<String, u8>,
    /// The members by number, as last seen in a list.
    ids: BTreeMap<u8, String>,
    acknowledged: Vec<String>,
    next: u32,
}

impl<'a> Real<'a> {
    pub(super) fn new(program: &'a Path, home: &'a Path, number: u8) -> Self {
        fs::create_dir_all(home).unwrap();
        Self {
            program,
            home,
            number,
            processes: BTreeMap::new(),
            started: Instant::now(),
            roles: BTreeMap::new(),
            ids: BTreeMap::new(),
            acknowledged: Vec::new(),
            next: 1,
        }
    }

    /// Runs all steps. The first answer that differs from the model's is an error, with the end of all etcds'
    /// logs.
    pub(super) fn run(mut self, steps: &[Step]) -> Result<(), String> {
        for (at, (step, expected)) in steps.iter().enumerate() {
            let words: Vec<&str> = step.split(' ').collect();
            let answer = self.step(&words, expected);
            if answer != *expected {
                let step = format!("step {}, `{step}`", at + 1);
                let logs = self.last_words();
                return Err(format!("{step}: {answer:?}, the model says {expected:?}\n{logs}"));
            }
        }
        Ok(())
    }

    fn step(&mut self, words: &[&str], expected: &str) -> String {
        match words {
            ["form", nodes, rest @ ..] => {
                let nodes = self.nodes(nodes);
                self.roles.clear();
                for node in &nodes {
                    self.start(*node, "new", &nodes, rest);
                }
                let states = nodes.iter().map(|node| self.come_to(*node, expected));
                let states: Vec<String> = states.collect();
                let otherwise = states.into_iter().find(|state| state != expected);
                otherwise.unwrap_or(expected.to_owned())
            }
            ["start", node, state, nodes, rest @ ..] => {
                let (node, nodes) = (self.node(node), self.nodes(nodes));
                self.start(node, state, &nodes, rest);
                self.come_to(node, expected)
            }
            ["state", node] => self.come_to(self.node(node), expected),
            ["leader"] => {
                let answer = until(expected, Duration::ZERO, || self.leader());
                if let Some(leader) = self.roles.get("L").copied() {
                    self.members(leader, REQUEST);
                }
                answer
            }
            ["tells", node] => {
                let node = self.node(node);
                let lasting = if expected == "none" {
                    LASTING
                } else {
                    Duration::ZERO
                };
                until(expected, lasting, || self.tells(node).to_owned())
            }
            [what @ ("write" | "read" | "members"), node] => {
                let node = self.node(node);
                let timeout = if expected == "no" { LASTING } else { REQUEST };
                until(expected, Duration::ZERO, || match *what {
                    "write" => self.write(node, timeout),
                    "read" => self.read(node, timeout),
                    _ => self.members(node, timeout),
                })
            }
            [what @ ("add" | "remove" | "promote" | "move"), node, target] => {
                let (node, target) = (self.node(node), self.node(target));
                if expected == "unhealthy" {
                    std::thread::sleep(CONNECTED.saturating_sub(self.started.elapsed()));
                }
                let timeout = if expected == "no" { LASTING } else { REQUEST };
                // The node's own list, also without a quorum.
                self.list(node, false, timeout).ok();
                until(expected, Duration::ZERO, || {
                    self.change(what, node, target, timeout)
                })
            }
            ["kill", node] => {
                self.processes.remove(&self.node(node));
                std::thread::sleep(NOTICED);
                String::new()
            }
            ["wipe", node] => {
                fs::remove_dir_all(self.dir(self.node(node))).unwrap();
                String::new()
            }
            other => panic!("no step: {other:?}"),
        }
    }

    fn node(&self, word: &str) -> u8 {
        let number = || word.strip_prefix('n')?.parse().ok();
        self.roles.get(word).copied().or_else(number).expect(word)
    }

    fn nodes(&self, words: &str) -> Vec<u8> {
        words.split(',').map(|word| self.node(word)).collect()
    }

    fn dir(&self, node: u8) -> PathBuf {
        self.home.join(format!("n{node}"))
    }

    fn address(&self, node: u8, port: u16) -> SocketAddr {
        (Ipv4Addr::new(127, self.number, 0, node), port).into()
    }

    fn peer_url(&self, node: u8) -> String {
        format!("http://{}", self.address(node, 2380))
    }

    fn start(&mut self, node: u8, state: &str, nodes: &[u8], rest: &[&str]) {
        let initial = nodes
            .iter()
            .map(|node| format!("n{node}={}", self.peer_url(*node)));
        let initial = initial.collect::<Vec<_>>().join(",");
        let (peer, client) = (
            self.peer_url(node),
            format!("http://{}", self.address(node, 2379)),
        );
        let token = rest.first().copied().unwrap_or("history");
        let args = [
            format!("--name=n{node}"),
            format!("--initial-cluster-state={state}"),
            format!("--initial-cluster-token={token}"),
            format!("--initial-cluster={initial}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            // This test kills processes, not machines, and a slow disk would cause elections.
            "--unsafe-no-fsync".to_owned(),
        ];
        let process = EtcdProcess::start(self.program, &self.dir(node), &args).unwrap();
        self.processes.insert(node, process);
        self.started = Instant::now();
    }

    fn state(&mut self, node: u8) -> &'static str {
        let process = self.processes.get_mut(&node).expect("it was started");
        match process.state().unwrap() {
            EtcdState::Serves => "serves",
            EtcdState::Hangs => "hangs",
            EtcdState::Exits => "exits",
        }
    }

    fn come_to(&mut self, node: u8, expected: &str) -> String {
        let lasting = if expected == "hangs" {
            LASTING
        } else {
            Duration::ZERO
        };
        until(expected, lasting, || self.state(node).to_owned())
    }

    fn ask(&self, node: u8, path: &str, body: &Value, timeout: Duration) -> Result<Value, String> {
        ask_etcd(self.address(node, 2379), &format!("POST {path}"), body, timeout)
    }

    /// Whether the node leads, follows or has no leader.
    fn tells(&self, node: u8) -> &'static str {
        let Ok(status) = self.ask(node, "/v3/maintenance/status", &json!({}), LASTING) else {
            return "down";
        };
        match status["leader"].as_str() {
            None | Some("0") => "none",
            leader if leader == status["header"]["member_id"].as_str() => "leads",
            _ => "follows",
        }
    }

    /// Whether the node knows the cluster version, which the leader decides a moment after all serve. If no
    /// running peer knows one, an emptied member does not come back: `incompatible with current running
    /// cluster`.
    fn has_version(&self, node: u8) -> bool {
        let answer = ask_etcd(self.address(node, 2379), "GET /version", &Value::Null, LASTING);
        answer.is_ok_and(|answer| answer["etcdcluster"] != "not_decided")
    }

    fn leader(&mut self) -> String {
        let mut running: Vec<u8> = self.processes.keys().copied().collect();
        running.retain(|node| self.state(*node) != "exits");
        let (leaders, others): (Vec<u8>, Vec<u8>) =
            running.iter().partition(|node| self.tells(**node) == "leads");
        let [leader] = leaders.as_slice() else {
            return if leaders.is_empty() { "none" } else { "several" }.to_owned();
        };
        if others.iter().any(|node| self.tells(*node) != "follows") {
            return "not known to all".to_owned();
        }
        if !running.iter().all(|node| self.has_version(*node)) {
            return "without a cluster version".to_owned();
        }
        let followers = others.iter().enumerate();
        self.roles = followers
            .map(|(at, node)| (format!("F{}", at + 1), *node))
            .collect();
        self.roles.insert("L".to_owned(), *leader);
        "one".to_owned()
    }

    fn write(&mut self, node: u8, timeout: Duration) -> String {
        // Keys and values are base64 in JSON. This is valid base64, and nobody decodes it.
        let key = format!("w{:07}", self.next);
        self.next += 1;
        match self.ask(node, "/v3/kv/put", &json!({"key": key, "value": key}), timeout) {
            Ok(_) => {
                self.acknowledged.push(key);
                "ok".to_owned()
            }
            Err(text) => kind(&text),
        }
    }

    fn read(&self, node: u8, timeout: Duration) -> String {
        // All keys: from \0 to \0.
        match self.ask(
            node,
            "/v3/kv/range",
            &json!({"key": "AA==", "range_end": "AA=="}),
            timeout,
        ) {
            Ok(answer) => {
                let kvs = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
                let there = |key: &String| kvs.iter().any(|kv| kv["key"] == **key);
                let all = self.acknowledged.iter().all(there);
                if all { "all" } else { "missing" }.to_owned()
            }
            Err(text) => kind(&text),
        }
    }

    fn members(&mut self, node: u8, timeout: Duration) -> String {
        let list = self.list(node, true, timeout);
        list.unwrap_or_else(|text| kind(&text))
    }

    fn list(&mut self, node: u8, linearizable: bool, timeout: Duration) -> Result<String, String> {
        let body = json!({"linearizable": linearizable});
        let list = self.ask(node, "/v3/cluster/member/list", &body, timeout)?;
        let mut shown = Vec::new();
        for member in list["members"].as_array().unwrap() {
            let url = member["peerURLs"][0].as_str().unwrap();
            let number = (1..=9).find(|node| self.peer_url(*node) == url).expect(url);
            self.ids.insert(number, member["ID"].as_str().unwrap().to_owned());
            let role = self.roles.iter().find(|(_, node)| **node == number);
            // L comes first, and nodes without a role last.
            let order = role.map_or(2, |(role, _)| i32::from(role != "L"));
            let mut text = role.map_or_else(|| format!("n{number}"), |(role, _)| role.clone());
            if member["isLearner"].as_bool().unwrap_or_default() {
                text.push('*');
            }
            if member["name"].as_str().unwrap_or_default().is_empty() {
                text = format!("({text})");
            }
            shown.push((order, text));
        }
        shown.sort();
        let shown: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
        Ok(shown.join(" "))
    }

    fn change(&self, what: &str, node: u8, target: u8, timeout: Duration) -> String {
        let id = self.ids.get(&target).map_or("0", String::as_str);
        let (path, body) = match what {
            "add" => (
                "/v3/cluster/member/add",
                json!({"peerURLs": [self.peer_url(target)], "isLearner": true}),
            ),
            "remove" => ("/v3/cluster/member/remove", json!({"ID": id})),
            "promote" => ("/v3/cluster/member/promote", json!({"ID": id})),
            _ => ("/v3/maintenance/transfer-leadership", json!({"targetID": id})),
        };
        match self.ask(node, path, &body, timeout) {
            Ok(_) => "ok".to_owned(),
            Err(text) => kind(&text),
        }
    }

    /// The end of each etcd's log.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for node in 1..=9 {
            let Ok(log) = fs::read_to_string(self.dir(node).with_extension("log")) else {
                continue;
            };
            let lines: Vec<&str> = log.lines().collect();
            let _ = writeln!(words, "---- n{node}");
            for line in lines.iter().skip(lines.len().saturating_sub(12)) {
                let _ = writeln!(words, "{}", line.chars().take(300).collect::<String>());
            }
        }
        words
    }
}

/// Polls until the answer is `expected` and has stayed so for `lasting`. An answer that cannot change any
/// more is returned at once.
fn until(expected: &str, lasting: Duration, mut look: impl FnMut() -> String) -> String {
    const FINAL: &[&str] = &["ok", "all", "missing", "exits"];
    let begun = Instant::now();
    let mut since = None;
    loop {
        let answer = look();
        if answer == expected {
            let since: Instant = *since.get_or_insert_with(Instant::now);
            if since.elapsed() >= lasting {
                return answer;
            }
        } else {
            since = None;
            if FINAL.contains(&answer.as_str()) || begun.elapsed() >= PATIENCE {
                return answer;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// etcd's error text in short. The simulator's test has the same list.
fn kind(text: &str) -> String {
    const KINDS: &[(&str, &str)] = &[
        ("unhealthy cluster", "unhealthy"),
        ("not enough started members", "not enough started"),
        ("in sync with leader", "not ready"),
        ("can only promote a learner", "no learner"),
        ("member not found", "not found"),
        ("Peer URLs already exists", "exists"),
        ("too many learner members", "too many learners"),
        ("not leader", "not leader"),
        ("no leader", "no"),
        ("leader changed", "no"),
        ("request timed out", "no"),
        ("deadline exceeded", "no"),
        ("no answer", "no"),
    ];
    let found = KINDS.iter().find(|(words, _)| text.contains(words));
    found.map_or_else(|| text.trim().to_owned(), |(_, kind)| (*kind).to_owned())
}
