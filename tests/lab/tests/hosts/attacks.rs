//! Attacks on real hosts: by a node that lies with a valid certificate (F2), by somebody with write access to
//! the bucket (F3), by strangers on the network (F7) and by local users (F8, B6). Each is refused and logged,
//! and stops no etcd.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    DATA, SOON, agent, archived, backup_now, backups, etcd_pid, etcd_pids, follower, formed, holds_for,
    member_ids, nobody, others, put, reason_now, status, wait_status,
};
use anyhow::{Context, Result};
use etcd_agent_lab::{Cmd, Host, Lab, Load, wait_until};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

/// The peer API's port.
const PEER_API: u16 = 2378;
const STATE: &str = "/var/lib/etcd-agent/state";

fn restart(host: &Host, unit: &str) {
    host.systemctl(&["restart", unit]).unwrap().ok().unwrap();
}

/// The log line of an agent when a majority denies a reported epoch.
fn denied(epoch: u64, who: &str) -> String {
    format!("ignoring epoch {epoch}, reported by {who}: it is denied by a majority of the electors")
}

/// How often the agent of a host has logged this line.
fn logged(host: &Host, line: &str) -> usize {
    host.journal("etcd-agent").unwrap().matches(line).count()
}

/// Waits until the agent of a host has logged this line.
fn wait_logged(host: &Host, line: &str) {
    let what = format!("{} to log {line:?}", host.name());
    wait_until(&what, SOON, || Ok(logged(host, line) > 0)).unwrap();
}

/// Waits until an agent gives this reason with these words, and checks that `plan` shows it too.
fn wait_words(host: &Host, code: &str, words: &str) {
    let what = format!("{} to report {code} with {words}", host.name());
    wait_until(&what, SOON, || {
        let text = reason_now(host, code)?.context("a text")?;
        anyhow::ensure!(text.contains(words), "{text}");
        Ok(true)
    })
    .unwrap();
    let plan = agent(host, &["plan"]).ok().unwrap();
    assert!(plan.stdout.contains(code), "{}", plan.stdout);
}

/// Waits until no reason of an agent contains these words.
fn wait_gone(host: &Host, words: &str) {
    let what = format!("{} to no longer report {words}", host.name());
    wait_until(&what, SOON, || {
        let reasons = status(host)?["decision"]["reasons"].to_string();
        anyhow::ensure!(!reasons.contains(words), "{reasons}");
        Ok(true)
    })
    .unwrap();
}

fn healthy(lab: &Lab) {
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
}

/// The first eight bytes of SHA-1, from which etcd computes its IDs.
fn sha1(bytes: Vec<u8>) -> u64 {
    let sum = Cmd::new("sha1sum").input(bytes).ok().unwrap();
    u64::from_str_radix(sum.stdout.get(..16).unwrap(), 16).unwrap()
}

/// The cluster ID derived from initial members and a token (`cluster_id_of` in src/model/genesis.rs).
fn cluster_id(members: &Value, token: &str) -> String {
    let member_id = |urls: &Value| {
        let mut urls: Vec<&str> = urls
            .as_array()
            .unwrap()
            .iter()
            .map(|url| url.as_str().unwrap())
            .collect();
        urls.sort_unstable();
        sha1((urls.concat() + token).into_bytes())
    };
    let mut ids: Vec<u64> = members.as_object().unwrap().values().map(member_id).collect();
    ids.sort_unstable();
    format!("{:x}", sha1(ids.into_iter().flat_map(u64::to_be_bytes).collect()))
}

/// A cluster in which one node lies.
struct Cluster<'a> {
    lab: &'a Lab,
    liar: &'a Host,
    honest: Vec<&'a Host>,
}

impl Cluster<'_> {
    fn memory(&self) -> Value {
        let text = self.liar.read_file(&format!("{STATE}/elector.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Changes the elector memory of the liar's agent. Its certificate and its programs do not change.
    fn forge_memory(&self, change: impl FnOnce(&mut Value)) {
        self.liar
            .systemctl(&["stop", "etcd-agent"])
            .unwrap()
            .ok()
            .unwrap();
        let mut memory = self.memory();
        change(&mut memory);
        let (path, owner) = (format!("{STATE}/elector.json"), "etcd-agent:etcd-agent");
        self.liar
            .write_file(&path, memory.to_string(), "0600", owner)
            .unwrap();
        self.liar
            .systemctl(&["start", "etcd-agent"])
            .unwrap()
            .ok()
            .unwrap();
    }

    /// A well-formed genesis of this epoch that nobody has chosen: it names an existing backup and another
    /// token.
    fn forged(&self, epoch: u64) -> Value {
        let mut genesis = self.memory()["chosen"].clone();
        let token = format!("prod-{epoch}-forged");
        let backup = backups(self.lab).pop().unwrap();
        let (_, backup) = backup.rsplit_once('/').unwrap();
        genesis["former"] = json!([genesis["cluster_id"]]);
        genesis["cluster_id"] = cluster_id(&genesis["members"], &token).into();
        genesis["origin"] = json!({ "from": "backup", "id": backup });
        genesis["epoch"] = epoch.into();
        genesis["token"] = token.into();
        genesis
    }

    /// A node that has received the lie still lets an ordered restart pass its gate.
    fn restarts_on_order(&self, host: &Host) {
        let before = etcd_pid(host);
        restart(host, "etcd");
        assert_ne!(etcd_pid(host), before);
        self.lab.wait_healthy(3, SOON).unwrap();
    }

    /// F2a: the liar's memory names an epoch that nobody has opened. An agent that can ask the others detects
    /// that by itself. Here it cannot ask them, and keeps reporting the epoch.
    fn reports_a_bare_epoch(&self) {
        let pids = etcd_pids(self.lab.hosts());
        let name = self.liar.name();
        self.lab.net().block_port(name, PEER_API).unwrap();
        self.forge_memory(|memory| memory["newest_epoch"] = 6.into());
        for host in &self.honest {
            wait_words(host, "epoch-denied", &format!("{name} (epoch 6)"));
        }
        wait_words(self.liar, "epoch-hearsay", "this node's memory (epoch 6)");
        assert_eq!(etcd_pids(self.lab.hosts()), pids, "{name} reports epoch 6");
        self.restarts_on_order(self.honest.first().unwrap());

        // Once the liar's agent can ask the others, a majority denies the remembered epoch.
        let pids = etcd_pids(self.lab.hosts());
        self.lab.heal_all().unwrap();
        wait_until("the liar's memory to be corrected", SOON, || {
            Ok(self.memory()["newest_epoch"] == 1)
        })
        .unwrap();
        for host in self.lab.hosts() {
            wait_gone(host, "epoch 6");
        }
        healthy(self.lab);
        assert_eq!(
            etcd_pids(self.lab.hosts()),
            pids,
            "{name} can ask the others again"
        );
        for host in &self.honest {
            assert_eq!(logged(host, &denied(6, name)), 1, "{}", host.name());
        }
        assert_eq!(logged(self.liar, &denied(6, "this node's memory")), 1);
    }

    /// The answer of a host's peer API to a genesis that the liar posts with its own certificate.
    fn post(&self, host: &Host, genesis: &Value) -> String {
        let file = "/root/forged.json";
        let message = json!({ "genesis": genesis }).to_string();
        self.liar.write_file(file, message, "0600", "root:root").unwrap();
        let tls = "/etc/etcd-agent/tls";
        let answer = self.liar.sh(&format!(
            "curl -sS --max-time 20 -w ' %{{http_code}}' --cacert {tls}/ca.crt --cert {tls}/node.crt --key {tls}/node.key \
             -H 'content-type: application/json' --data-binary @{file} https://{}:{PEER_API}/v1/genesis/learn",
            host.name()
        ));
        answer.unwrap().ok().unwrap().stdout
    }

    /// F2b: the liar posts a genesis and claims that it was chosen.
    fn posts_a_genesis(&self) {
        let pids = etcd_pids(self.lab.hosts());
        let (forged, far) = (self.forged(2), self.forged(u64::MAX));
        let denied = denied(2, "a message");
        for host in &self.honest {
            let answer = self.post(host, &forged);
            assert!(answer.ends_with(" 200"), "{answer}");
            wait_logged(host, &denied);
            // The second post is recognized as already denied.
            self.post(host, &forged);
            wait_words(host, "epoch-denied", "a message (epoch 2)");
            let answer = self.post(host, &far);
            assert!(
                answer.ends_with(" 400") && answer.contains("is not believed"),
                "{answer}"
            );
            let refused = format!("refused {}: POST /v1/genesis/learn", self.liar.address());
            wait_logged(host, &refused);
            assert_eq!(logged(host, &refused), 1, "{}", host.name());
            assert_eq!(logged(host, &denied), 1, "{}", host.name());
            let chosen = status(host).unwrap()["node"]["genesis"]["epoch"].clone();
            assert_eq!(chosen, 1, "{}", host.name());
        }
        assert_eq!(
            etcd_pids(self.lab.hosts()),
            pids,
            "{} posts epoch 2",
            self.liar.name()
        );
        self.restarts_on_order(self.honest.last().unwrap());
    }

    /// F3: somebody writes the record of an epoch into the bucket. An agent reads the store after a backup of
    /// its own, and at its start.
    fn writes_into_the_store(&self, epoch: u64, code: &str, words: &str) {
        let pids = etcd_pids(self.lab.hosts());
        let keys = self.lab.s3().keys().unwrap();
        let first = keys.iter().find(|key| key.ends_with("control/epochs/1")).unwrap();
        let key = first.strip_suffix('1').unwrap().to_owned() + &epoch.to_string();
        let forged = self.forged(epoch).to_string();
        let (file, object) = ("/root/forged-epoch.json", self.lab.s3().curl(&key));
        self.liar
            .write_file(file, forged.as_str(), "0600", "root:root")
            .unwrap();
        self.liar
            .sh(&format!("{object} -T {file}"))
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(self.lab.s3().read(&key).unwrap(), forged);
        let running = *self.honest.first().unwrap();
        backup_now(running);
        wait_words(running, code, words);
        for host in self.lab.hosts() {
            restart(host, "etcd-agent");
        }
        for host in self.lab.hosts() {
            wait_words(host, code, words);
        }
        if code == "epoch-denied" {
            for host in self.lab.hosts() {
                // Once in each run of the agent.
                let runs = 1 + usize::from(host.name() == running.name());
                assert_eq!(logged(host, &denied(epoch, "the store")), runs, "{}", host.name());
            }
        }
        assert_eq!(
            etcd_pids(self.lab.hosts()),
            pids,
            "the store reports epoch {epoch}"
        );
        self.restarts_on_order(self.honest.first().unwrap());

        let pids = etcd_pids(self.lab.hosts());
        self.liar
            .sh(&format!("{object} -X DELETE"))
            .unwrap()
            .ok()
            .unwrap();
        for host in self.lab.hosts() {
            restart(host, "etcd-agent");
        }
        for host in self.lab.hosts() {
            wait_gone(host, "the store");
        }
        healthy(self.lab);
        assert_eq!(etcd_pids(self.lab.hosts()), pids, "the record was deleted");
    }

    /// F2b: the liar's memory holds a genesis as chosen that nobody has chosen. Its agent acts on its own
    /// memory, because a node relies on it if no other node answers. So it stops its own etcd, moves the data
    /// to the archive and restores the backup that the genesis names. The restored member never gets a
    /// quorum, because the others are members of another cluster. They continue to serve, and restart
    /// nothing.
    fn reports_a_genesis(&self, load: &Load) {
        let name = self.liar.name();
        let honest = || etcd_pids(self.honest.iter().copied());
        let (pids, first) = (honest(), *self.honest.first().unwrap());
        let (cluster, before) = member_ids(self.lab, first).unwrap();
        let forged = self.forged(3);
        let other = forged["cluster_id"].clone();
        self.forge_memory(|memory| {
            memory["newest_epoch"] = forged["epoch"].clone();
            memory["chosen"] = forged;
        });
        for host in &self.honest {
            wait_words(host, "epoch-denied", &format!("{name} (epoch 3)"));
        }
        wait_until("the liar's etcd to start with the forged genesis", SOON, || {
            let etcd = self.liar.journal("etcd")?;
            Ok(etcd.contains(&format!("\"local-member-cluster-id\":{other}")))
        })
        .unwrap();
        assert_eq!(archived(self.liar).len(), 1, "the liar's own data is archived");
        load.wait_for(50, SOON).unwrap();
        for host in &self.honest {
            assert_eq!(archived(host), Vec::<String>::new(), "{}", host.name());
        }
        assert_eq!(honest(), pids, "{name} reports a genesis");

        // Deleting only the memory leaves the data of the forged cluster in place, and the node is not added
        // again.
        self.liar
            .sh(&format!(
                "systemctl stop etcd-agent etcd; rm -rf {STATE}/*; mv {DATA} {DATA}-forged; systemctl start etcd-agent"
            ))
            .unwrap()
            .ok()
            .unwrap();
        healthy(self.lab);
        let (same, after) = member_ids(self.lab, self.liar).unwrap();
        assert_eq!(same, cluster, "the same cluster");
        for host in &self.honest {
            let name = host.name();
            assert_eq!(after.get(name), before.get(name), "{name} is the same member");
        }
        assert_ne!(after.get(name), before.get(name), "{name} was added again");
        assert_eq!(honest(), pids, "{name} has recovered");
        let denied = denied(3, name);
        for host in &self.honest {
            assert_eq!(logged(host, &denied), 1, "{}", host.name());
            wait_gone(host, "epoch 3");
        }
    }
}

#[test]
fn f02_f03_what_one_node_or_the_store_reports_stops_no_etcd_of_others() {
    let lab = formed("f02", 3);
    healthy(&lab);
    backup_now(lab.host(1).unwrap());
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let liar = follower(&lab);
    let cluster = Cluster {
        lab: &lab,
        liar,
        honest: others(&lab, liar),
    };
    cluster.reports_a_bare_epoch();
    cluster.posts_a_genesis();
    cluster.writes_into_the_store(2, "epoch-denied", "the store (epoch 2)");
    let far = format!("the store reports epoch {}", u64::MAX);
    cluster.writes_into_the_store(u64::MAX, "epoch-refused", &far);
    cluster.reports_a_genesis(&load);
    load.stop().unwrap().verify_all(&lab).unwrap();
    lab.passed();
}

/// The number of connections that each stranger keeps open to each host: the limit of the peer API per
/// address.
const EACH: usize = 16;
/// The number of tries of a stranger for each of these connections.
const ROUNDS: usize = 600;
const PAUSE: Duration = Duration::from_millis(500);

/// Addresses of the outside that do not belong to a node.
fn strangers(lab: &Lab) -> Vec<Ipv4Addr> {
    let [a, b, c, _] = lab.net().outside_address().octets();
    let namespace = lab.net().outside_namespace();
    let addresses = (201..=208).map(|d| Ipv4Addr::new(a, b, c, d));
    addresses
        .inspect(|address| {
            let add = [
                "-n",
                &namespace,
                "addr",
                "add",
                &format!("{address}/32"),
                "dev",
                "br0",
            ];
            Cmd::new("ip").args(add).ok().unwrap();
        })
        .collect()
}

/// Connects repeatedly and never sends anything. The connection is refused, or closed when the time limit of
/// the TLS handshake expires.
async fn say_nothing(from: Ipv4Addr, to: SocketAddr) {
    for _ in 0..ROUNDS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        if let Ok(Ok(mut stream)) = timeout(Duration::from_secs(2), socket.connect(to)).await {
            let _ = stream.read(&mut [0]).await;
        }
        sleep(PAUSE).await;
    }
}

/// Lets all strangers connect to all hosts until `over` is set.
fn crowd(lab: &Lab, strangers: &[Ipv4Addr], over: &AtomicBool) -> Result<()> {
    let hosts = lab
        .hosts()
        .iter()
        .map(|host| SocketAddr::from((host.address(), PEER_API)));
    let hosts: Vec<SocketAddr> = hosts.collect();
    let pairs = strangers
        .iter()
        .flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
    let all = pairs
        .flat_map(|pair| [pair; EACH])
        .map(|(from, to)| say_nothing(from, to));
    let told = async {
        while !over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            _ = join_all(all) => anyhow::bail!("the strangers ended too early"),
            () = told => Ok(()),
        }
    })
}

/// Ends the crowd, also if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The names of the peers whose observations an agent receives.
fn heard(host: &Host) -> Result<Vec<String>> {
    let status = status(host)?;
    let peers = status["peers"].as_object().context("peers")?;
    let known = peers.iter().filter(|(_, fact)| fact["fact"] == "known");
    Ok(known.map(|(name, _)| name.clone()).collect())
}

/// The limit of log lines for one address since then: one a minute.
fn lines_since(begun: Instant) -> usize {
    1 + usize::try_from(begun.elapsed().as_secs() / 60).unwrap()
}

/// F7: silent connections from many addresses take every place of the peer API that is not reserved for a
/// node.
fn strangers_fill_the_peer_api(lab: &Lab) {
    let pids = etcd_pids(lab.hosts());
    let strangers = strangers(lab);
    let (n1, later) = lab.hosts().split_first().unwrap();
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ends = Ends(&over);
        let crowd = scope.spawn(|| lab.outside(|| crowd(lab, &strangers, &over)));
        for host in lab.hosts() {
            wait_logged(host, "too many pending handshakes");
        }
        // An open connection stays open, but an agent that has just started has none to any other.
        for host in later {
            restart(host, "etcd-agent");
        }
        for host in lab.hosts() {
            let what = format!("{} to receive from its peers", host.name());
            wait_until(&what, SOON, || Ok(heard(host)?.len() == 2)).unwrap();
        }
        // A peer that does not answer a long poll counts as unreachable after 12 s.
        holds_for("all agents see each other", Duration::from_secs(15), || {
            lab.hosts().iter().all(|host| heard(host).unwrap().len() == 2)
        });
        drop(ends);
        crowd.join().unwrap().unwrap();
    });
    // n1's agent was not restarted.
    let most = lines_since(begun);
    let lines: BTreeMap<_, _> = strangers
        .iter()
        .map(|address| (address, logged(n1, &format!("refused {address}: "))))
        .collect();
    assert!(lines.values().all(|count| *count <= most), "{lines:?}");
    // The places are available again to clients with a certificate.
    let (cert, key) = lab.client_files().unwrap();
    wait_until("a stranger to be served", SOON, || {
        let answer = Cmd::new("nsenter")
            .arg(format!("--net=/run/netns/{}", lab.net().outside_namespace()))
            .args(["curl", "-sS", "--fail", "--max-time", "20", "--cacert"])
            .arg(lab.ca()?.cert_path())
            .arg("--cert")
            .arg(&cert)
            .arg("--key")
            .arg(&key)
            .arg(format!("https://{}:{PEER_API}/healthz", n1.address()))
            .ok()?;
        Ok(answer.text() == "ok")
    })
    .unwrap();
    assert_eq!(etcd_pids(lab.hosts()), pids);
}

/// The names of a host's agent on the system bus. A new session has another name.
fn bus_names(host: &Host) -> Vec<String> {
    let pid = host.main_pid("etcd-agent").unwrap().unwrap().to_string();
    let list = host.sh("busctl list --no-legend --unique").unwrap().ok().unwrap();
    let fields = list
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = fields.filter(|fields| fields.get(1) == Some(&pid.as_str()));
    own.map(|fields| fields.first().unwrap().to_string()).collect()
}

/// Signals that look like those of systemd and the bus itself, a few a second: as broadcast, and addressed to
/// the agent, which receives those even without a subscription.
fn forged_signals(agent: &[String]) -> String {
    let (manager, bus) = ("org.freedesktop.systemd1.Manager", "org.freedesktop.DBus");
    let systemd = "/org/freedesktop/systemd1";
    let unit = format!("{systemd}/unit/etcd_2eservice");
    let signals = [
        format!("/x {manager} JobRemoved s hi"),
        format!("{systemd} {manager} JobRemoved uoss 1 {systemd}/job/1 etcd.service done"),
        format!("{systemd} {manager} UnitNew so etcd.service {unit}"),
        format!("{systemd} {manager} Reloading b true"),
        format!("{unit} {bus}.Properties PropertiesChanged s hi"),
        format!("/x {bus} NameOwnerChanged sss org.freedesktop.systemd1 a b"),
    ];
    let to_one = agent.iter().map(|name| format!("--destination={name} "));
    let to = to_one.chain([String::new()]);
    let emit = |to: String| {
        signals
            .each_ref()
            .map(|signal| format!("busctl emit {to}{signal} || true"))
    };
    let commands: Vec<String> = to.flat_map(emit).collect();
    format!(
        "for round in $(seq 300); do\n{}\nsleep 0.2\ndone\n",
        commands.join("\n")
    )
}

/// Runs a program as the user nobody, in a unit of this name.
fn start_as_nobody(host: &Host, unit: &str, argv: &[&str]) {
    let unit = format!("--unit={unit}");
    let run = ["systemd-run", "--quiet", "--collect", "--uid=nobody", &unit];
    host.exec(&[&run, argv].concat()).unwrap().ok().unwrap();
}

fn is_active(host: &Host, unit: &str) -> bool {
    host.unit_property(unit, "ActiveState").unwrap() == "active"
}

/// B6 and F8: a local user forges signals of systemd, and opens more connections to the gate than it has
/// places.
fn a_local_user_forges_signals_and_holds_the_gate(lab: &Lab, host: &Host) {
    let (pids, begun) = (etcd_pids(lab.hosts()), Instant::now());
    let names = bus_names(host);
    assert!(!names.is_empty(), "the agent is on the bus");
    start_as_nobody(host, "forger", &["sh", "-c", &forged_signals(&names)]);
    wait_logged(host, "ignored a signal on the system bus");
    holds_for("the agent sees etcd's unit", Duration::from_secs(5), || {
        status(host).unwrap()["node"]["unit"]["value"]["active"] == "active"
    });

    let gate = "/run/etcd-agent/gate.sock";
    let ask = format!("curl -sS --max-time 5 --unix-socket {gate} http://localhost/v1/gate");
    let refused = host.sh(&nobody(&ask)).unwrap();
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert_eq!(refused.stdout, "");
    let roots = host.sh(&ask).unwrap().ok().unwrap();
    assert!(roots.stdout.contains("\"clear\":"), "{}", roots.stdout);
    assert_eq!(etcd_pids(lab.hosts()), pids);
    let hold = format!(
        "use IO::Socket::UNIX; while (1) {{ \
           @held = map {{ IO::Socket::UNIX->new(Peer => \"{gate}\") }} 1..32; select(undef, undef, undef, 0.1) }}"
    );
    start_as_nobody(host, "hold", &["perl", "-e", &hold]);
    wait_logged(host, "may ask the gate");
    restart(host, "etcd");
    let pid = etcd_pid(host);
    assert_ne!(Some(&pid), pids.get(host.name()));
    let said = host.journal("etcd").unwrap();
    assert!(!said.contains("no etcd-agent answers here"), "{said}");
    wait_until("the agent to see the new process", SOON, || {
        Ok(status(host)?["node"]["unit"]["value"]["main_pid"] == pid)
    })
    .unwrap();
    put(lab, "after", "the gate");

    for unit in ["hold", "forger"] {
        assert!(is_active(host, unit), "{unit} ran to the end");
        host.systemctl(&["stop", unit]).unwrap().ok().unwrap();
    }
    assert_eq!(
        bus_names(host),
        names,
        "the session with systemd was never reconnected"
    );
    assert_eq!(logged(host, "no answer from systemd"), 0);
    assert_eq!(logged(host, "ignored a signal on the system bus"), 1);
    assert!(logged(host, "may ask the gate") <= lines_since(begun));
    let others = others(lab, host);
    assert!(
        others
            .iter()
            .all(|other| Some(&etcd_pid(other)) == pids.get(other.name()))
    );
}

#[test]
fn f07_f08_b06_strangers_and_local_users_keep_no_node_out() {
    let lab = formed("f07", 3);
    healthy(&lab);
    strangers_fill_the_peer_api(&lab);
    a_local_user_forges_signals_and_holds_the_gate(&lab, lab.host(1).unwrap());
    healthy(&lab);
    lab.passed();
}
