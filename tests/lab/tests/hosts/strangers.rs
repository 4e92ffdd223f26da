//! Attacks by strangers on the network (F7) and by local users (F8, B6). Each is refused and logged, and
//! stops no etcd.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    PEER_API, SOON, etcd_pid, etcd_pids, formed, healthy, holds_for, logged, nobody, others, put, restart,
    status, wait_logged,
};
use anyhow::{Context, Result};
use etcd_agent_lab::{Cmd, Host, Lab, wait_until};
use futures::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

/// The number of connections that each stranger keeps open to each host: the limit of the peer API per
/// address.
const EACH: usize = 16;
/// The pause between two tries of a stranger for each of these connections.
const PAUSE: Duration = Duration::from_millis(500);
/// The strangers end when the test does, or after so many looks.
const MOST_LOOKS: usize = 20_000;
const LOOK: Duration = Duration::from_millis(50);

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
    loop {
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
    let answer = async {
        for _ in 0..MOST_LOOKS {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        anyhow::bail!("nobody ended the strangers")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            _ = join_all(all) => anyhow::bail!("the strangers ended too early"),
            ended = answer => ended,
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
fn received(host: &Host) -> Result<Vec<String>> {
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
            wait_until(&what, SOON, || Ok(received(host)?.len() == 2)).unwrap();
        }
        // A peer that sends nothing counts as unreachable after 12 s.
        holds_for("all agents see each other", Duration::from_secs(15), || {
            lab.hosts().iter().all(|host| received(host).unwrap().len() == 2)
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
    format!("while :; do\n{}\nsleep 0.2\ndone\n", commands.join("\n"))
}

/// Runs a program as the user nobody, in a unit of this name, until the test stops it, or for 15 minutes.
fn start_as_nobody(host: &Host, unit: &str, argv: &[&str]) {
    let unit = format!("--unit={unit}");
    let most = "--property=RuntimeMaxSec=15min";
    let run = ["systemd-run", "--quiet", "--collect", "--uid=nobody", most, &unit];
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
    for delayed in ["no etcd-agent answers here", "etcd stops without leave"] {
        assert!(!said.contains(delayed), "{said}");
    }
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
