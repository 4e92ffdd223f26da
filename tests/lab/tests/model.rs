//! The simulator's model of etcd is held against the truth: the histories of `tests/sim/histories.txt`, each step's answer
//! being the model's, run on real etcd, without an agent, as units of one host's systemd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etcd_agent_lab::{Host, Lab};
use serde_json::Value;

const HISTORIES: &str = include_str!("../../sim/histories.txt");

/// How long something that happens may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// What does not happen has not happened for this long: more than the 5 s that etcd wants its peers connected for.
const LASTING: Duration = Duration::from_secs(6);
/// After this long the others know that a process is dead.
const NOTICED: Duration = Duration::from_secs(1);
/// How many histories run side by side.
const WORKERS: usize = 3;

/// One line: a step, and what the model answers.
type Step = (&'static str, Option<&'static str>);

fn histories() -> Vec<(&'static str, Vec<Step>)> {
    let mut all: Vec<(&str, Vec<Step>)> = Vec::new();
    let lines = HISTORIES.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("= ") {
            all.push((name, Vec::new()));
            continue;
        }
        let step = line.split_once(" => ");
        let step = step.map_or((line, None), |(step, answer)| (step, Some(answer)));
        all.last_mut().expect("a name comes first").1.push(step);
    }
    all
}

fn holds_against(version: &str) {
    let lab = Lab::builder(&format!("model-{version}")).boot().unwrap();
    let host = lab.host(1).unwrap();
    let all = histories();
    assert!(all.len() >= 10, "{} histories", all.len());
    let next = AtomicUsize::new(0);
    let differ = Mutex::new(String::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some((name, steps)) = all.get(number) else {
                        return;
                    };
                    if let Err(text) = Real::new(host, version, number + 1).run(steps) {
                        eprintln!("etcd {version}: {name}: {text}");
                        let mut differ = differ.lock().unwrap();
                        let _ = writeln!(differ, "{name}: {text}");
                    }
                }
            });
        }
    });
    let differ = differ.into_inner().unwrap();
    assert!(
        differ.is_empty(),
        "etcd {version} answers otherwise than the model:\n{differ}"
    );
    lab.passed();
}

#[test]
fn the_model_answers_as_etcd_3_5() {
    holds_against("3.5.35");
}

#[test]
fn the_model_answers_as_etcd_3_6() {
    holds_against("3.6.16");
}

#[test]
fn the_model_answers_as_etcd_3_7() {
    holds_against("3.7.3");
}

/// The etcds of one history, all on one host: n2 of the third at 127.3.0.2.
struct Real<'a> {
    host: &'a Host,
    version: &'a str,
    number: usize,
    /// Every etcd that was ever started.
    started: Vec<usize>,
    /// L, F1, F2, ... as of the last `leader`.
    roles: BTreeMap<String, usize>,
    /// The members by number, as last seen in a list.
    ids: BTreeMap<usize, u64>,
    acknowledged: Vec<String>,
    next: u32,
}

impl<'a> Real<'a> {
    fn new(host: &'a Host, version: &'a str, number: usize) -> Self {
        Self {
            host,
            version,
            number,
            started: Vec::new(),
            roles: BTreeMap::new(),
            ids: BTreeMap::new(),
            acknowledged: Vec::new(),
            next: 1,
        }
    }

    /// Takes all steps, and clears away what was started.
    fn run(mut self, steps: &[Step]) -> Result<(), String> {
        let outcome = self.take(steps);
        for node in self.started.clone() {
            self.kill(node);
            // What is in memory is little.
            self.host
                .exec(&["rm", "-rf", &self.dir(node)])
                .unwrap()
                .ok()
                .unwrap();
        }
        outcome
    }

    /// The first answer that is not the model's is an error.
    fn take(&mut self, steps: &[Step]) -> Result<(), String> {
        for (at, (step, expected)) in steps.iter().enumerate() {
            let words: Vec<&str> = step.split(' ').collect();
            let expected = expected.unwrap_or_default();
            let answer = self.step(&words, expected);
            if answer != expected {
                return Err(format!(
                    "step {}, `{step}`: {answer:?}, the model says {expected:?}",
                    at + 1
                ));
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
                states
                    .collect::<Vec<_>>()
                    .into_iter()
                    .find(|state| state != expected)
                    .unwrap_or(expected.to_owned())
            }
            ["start", node, state, nodes, rest @ ..] => {
                let (node, nodes) = (self.node(node), self.nodes(nodes));
                self.start(node, state, &nodes, rest);
                self.come_to(node, expected)
            }
            ["state", node] => self.come_to(self.node(node), expected),
            ["leader"] => {
                let answer = until(expected, || self.leader());
                if let Some(leader) = self.roles.get("L").copied() {
                    self.members(leader);
                }
                answer
            }
            ["tells", node] => {
                let node = self.node(node);
                until(expected, || self.tells(node).1.to_owned())
            }
            ["write", node] => {
                let node = self.node(node);
                until(expected, || self.write(node))
            }
            ["read", node] => {
                let node = self.node(node);
                until(expected, || self.read(node))
            }
            ["members", node] => {
                let node = self.node(node);
                until(expected, || self.members(node))
            }
            [what @ ("add" | "remove" | "promote" | "move"), node, target] => {
                let (node, target) = (self.node(node), self.node(target));
                self.members(node);
                until(expected, || self.change(what, node, target, expected))
            }
            ["kill", node] => {
                self.kill(self.node(node));
                std::thread::sleep(NOTICED);
                String::new()
            }
            ["wipe", node] => {
                let dir = self.dir(self.node(node));
                self.host.exec(&["rm", "-rf", &dir]).unwrap().ok().unwrap();
                String::new()
            }
            other => panic!("no step: {other:?}"),
        }
    }

    fn node(&self, word: &str) -> usize {
        let number = || word.strip_prefix('n')?.parse().ok();
        self.roles.get(word).copied().or_else(number).expect(word)
    }

    fn nodes(&self, words: &str) -> Vec<usize> {
        words.split(',').map(|word| self.node(word)).collect()
    }

    fn unit(&self, node: usize) -> String {
        format!("h{}-n{node}.service", self.number)
    }

    /// In memory: no slow disk brings about an election.
    fn dir(&self, node: usize) -> String {
        format!("/run/model/h{}-n{node}", self.number)
    }

    fn url(&self, node: usize, port: u16) -> String {
        format!("http://127.{}.0.{node}:{port}", self.number)
    }

    fn start(&mut self, node: usize, state: &str, nodes: &[usize], rest: &[&str]) {
        let (unit, dir) = (self.unit(node), self.dir(node));
        let cluster: Vec<String> = nodes
            .iter()
            .map(|node| format!("n{node}={}", self.url(*node, 2380)))
            .collect();
        let (peer, client) = (self.url(node, 2380), self.url(node, 2379));
        let token = rest.first().copied().unwrap_or("history");
        let script = format!(
            "mkdir -p /run/model; rm -f {dir}.ended; systemctl reset-failed {unit} 2>/dev/null || true\n\
             systemd-run --quiet --no-block --unit={unit} -p Type=notify -p TimeoutStartSec=infinity \
             -p ExecStopPost='/usr/bin/touch {dir}.ended' \
             /opt/etcd-v{}/etcd --name=n{node} --data-dir={dir} --initial-cluster-state={state} \
             --initial-cluster-token={token} --initial-cluster={} \
             --listen-peer-urls={peer} --initial-advertise-peer-urls={peer} \
             --listen-client-urls={client} --advertise-client-urls={client} --election-timeout=3000",
            self.version,
            cluster.join(",")
        );
        self.host.sh(&script).unwrap().ok().unwrap();
        if !self.started.contains(&node) {
            self.started.push(node);
        }
    }

    fn kill(&self, node: usize) {
        let unit = self.unit(node);
        self.host
            .systemctl(&["kill", "--kill-whom=main", "--signal=KILL", &unit])
            .unwrap();
        let ended = until("exits", || self.state(node));
        assert_eq!(ended, "exits", "{unit} was killed");
    }

    fn state(&self, node: usize) -> String {
        let script = format!(
            "if test -e {}.ended; then echo exits; else systemctl show -P ActiveState {}; fi",
            self.dir(node),
            self.unit(node)
        );
        let state = self.host.sh(&script).unwrap().ok().unwrap();
        match state.text() {
            "exits" => "exits",
            "active" => "serves",
            _ => "hangs",
        }
        .to_owned()
    }

    fn come_to(&self, node: usize, expected: &str) -> String {
        until(expected, || self.state(node))
    }

    fn etcdctl(&self, node: usize, args: &[&str], timeout: &str) -> Result<String, String> {
        let program = format!("/opt/etcd-v{}/etcdctl", self.version);
        let endpoint = format!("--endpoints={}", self.url(node, 2379));
        let timeout = format!("--command-timeout={timeout}");
        let mut argv = vec!["env", "ETCDCTL_API=3", &program, &endpoint, &timeout];
        argv.extend(args);
        let output = self.host.exec(&argv).unwrap();
        if output.success() {
            Ok(output.stdout)
        } else {
            Err(output.stderr)
        }
    }

    /// Its member's ID, and whether it leads, follows or has no leader.
    fn tells(&self, node: usize) -> (u64, &'static str) {
        let Ok(text) = self.etcdctl(node, &["endpoint", "status", "-w", "json"], "3s") else {
            return (0, "down");
        };
        let status: Value = serde_json::from_str(&text).unwrap();
        let status = &status[0]["Status"];
        let own = status["header"]["member_id"].as_u64().unwrap_or_default();
        match status["leader"].as_u64().unwrap_or_default() {
            0 => (own, "none"),
            leader if leader == own => (own, "leads"),
            _ => (own, "follows"),
        }
    }

    fn leader(&mut self) -> String {
        let mut running = self.started.clone();
        running.sort_unstable();
        running.retain(|node| self.state(*node) != "exits");
        let told: Vec<(usize, &str)> = running.iter().map(|node| (*node, self.tells(*node).1)).collect();
        let leaders: Vec<usize> = told
            .iter()
            .filter(|(_, is)| *is == "leads")
            .map(|(node, _)| *node)
            .collect();
        let [leader] = leaders.as_slice() else {
            return if leaders.is_empty() { "none" } else { "several" }.to_owned();
        };
        let others = running.iter().filter(|node| *node != leader);
        self.roles = others
            .enumerate()
            .map(|(at, node)| (format!("F{}", at + 1), *node))
            .collect();
        self.roles.insert("L".to_owned(), *leader);
        "one".to_owned()
    }

    fn write(&mut self, node: usize) -> String {
        let key = format!("w{:04}", self.next);
        self.next += 1;
        match self.etcdctl(node, &["put", &key, "written"], "3s") {
            Ok(_) => {
                self.acknowledged.push(key);
                "ok".to_owned()
            }
            Err(text) => kind(&text),
        }
    }

    fn read(&self, node: usize) -> String {
        match self.etcdctl(node, &["get", "w", "--prefix", "--keys-only"], "3s") {
            Ok(text) => {
                let all = self
                    .acknowledged
                    .iter()
                    .all(|key| text.lines().any(|line| line == key));
                if all { "all" } else { "missing" }.to_owned()
            }
            Err(text) => kind(&text),
        }
    }

    fn members(&mut self, node: usize) -> String {
        let text = match self.etcdctl(node, &["member", "list", "-w", "json"], "3s") {
            Ok(text) => text,
            Err(text) => return kind(&text),
        };
        let list: Value = serde_json::from_str(&text).unwrap();
        let mut shown = Vec::new();
        for member in list["members"].as_array().unwrap() {
            let url = member["peerURLs"][0].as_str().unwrap();
            let number = (1..=9).find(|node| self.url(*node, 2380) == url).expect(url);
            self.ids.insert(number, member["ID"].as_u64().unwrap());
            let role = self
                .roles
                .iter()
                .find(|(_, node)| **node == number)
                .map(|(role, _)| role.clone());
            // L before the others, and those that have no role last.
            let order = role.as_ref().map_or(2, |role| i32::from(role != "L"));
            let mut text = role.unwrap_or(format!("n{number}"));
            if member["isLearner"].as_bool().unwrap_or_default() {
                text.push('*');
            }
            if member["name"].as_str().unwrap_or_default().is_empty() {
                text = format!("({text})");
            }
            shown.push((order, text));
        }
        shown.sort();
        shown
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn change(&self, what: &str, node: usize, target: usize, expected: &str) -> String {
        let id = format!("{:x}", self.ids.get(&target).copied().unwrap_or_default());
        let name = format!("n{target}");
        let url = format!("--peer-urls={}", self.url(target, 2380));
        let args = match what {
            "add" => vec!["member", "add", &name, "--learner", &url],
            "remove" => vec!["member", "remove", &id],
            "promote" => vec!["member", "promote", &id],
            _ => vec!["move-leader", &id],
        };
        // Where it is to be done, long enough that it is known whether it was.
        let timeout = if expected == "ok" { "50s" } else { "3s" };
        match self.etcdctl(node, &args, timeout) {
            Ok(_) => "ok".to_owned(),
            Err(text) => kind(&text),
        }
    }
}

/// Looks until this is the answer. That something hangs or is refused has to be so for a while; that something was done
/// is the answer at once.
fn until(expected: &str, mut look: impl FnMut() -> String) -> String {
    const DONE: &[&str] = &["ok", "all", "missing"];
    let lasting = match expected {
        "serves" | "exits" | "one" | "leads" | "follows" => Duration::ZERO,
        done if DONE.contains(&done) => Duration::ZERO,
        members
            if members.contains('L') || members.starts_with('n') && members != "no" && members != "none" =>
        {
            Duration::ZERO
        }
        _ => LASTING,
    };
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
            if DONE.contains(&answer.as_str()) || begun.elapsed() >= PATIENCE {
                return answer;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// etcd's words, in short; the simulator's test has the same list.
fn kind(text: &str) -> String {
    const KINDS: &[(&str, &str)] = &[
        ("unhealthy cluster", "unhealthy"),
        ("not enough started members", "not enough started"),
        ("in sync with leader", "not ready"),
        ("can only promote a learner", "no learner"),
        ("member not found", "not found"),
        ("Peer URLs already exists", "exists"),
        ("too many learner members", "too many learners"),
        ("no leader endpoint given", "not leader"),
        ("no leader", "no"),
        ("leader changed", "no"),
        ("request timed out", "no"),
        ("deadline exceeded", "no"),
        ("connection refused", "no"),
    ];
    let found = KINDS.iter().find(|(words, _)| text.contains(words));
    found.map_or_else(|| text.trim().to_owned(), |(_, kind)| (*kind).to_owned())
}
