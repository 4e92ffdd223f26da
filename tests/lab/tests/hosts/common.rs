//! Shared by the scenarios: the agent's command line, etcd's keys, and facts that must never differ between
//! hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use etcd_agent_lab::{ETCD_DEFAULT, Host, Lab, Output, S3Server, Written, built_deb, wait_for, wait_until};
use serde_json::Value;

/// The timeout for events that take a few seconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_mins(3);

/// The guide from the package to three nodes.
pub(crate) const GUIDE: &str = include_str!("../../../../docs/getting-started.md");

/// How long a healthy cluster may have no leader on a busy machine.
const ELECTION: Duration = Duration::from_secs(30);

/// The longest time without an acknowledged write while etcds are restarted one at a time: on a busy machine an election,
/// and the longest try of the writer, which doubles its timeout up to 4 s.
const GAP: Duration = Duration::from_secs(15);

/// Settings with which no election happens by chance. One after the loss of a leader takes 5 to 10 s.
pub(crate) const STEADY: &str =
    "[etcd.settings]\nheartbeat-interval = \"500\"\nelection-timeout = \"5000\"\n";

/// etcd's data directory in the lab.
pub(crate) const DATA: &str = "/var/lib/etcd/default";

/// The peer API's port.
pub(crate) const PEER_API: u16 = 2378;

pub(crate) fn deb() -> PathBuf {
    built_deb().unwrap()
}

/// The code block of a page that contains this text. `fence` is what the block begins with, e.g. `toml\n`.
pub(crate) fn block(page: &str, fence: &str, has: &str) -> String {
    let mut blocks = page.split("```").skip(1).step_by(2);
    let found = blocks.find(|block| block.starts_with(fence) && block.contains(has));
    let found = found.unwrap_or_else(|| panic!("the page has no block with {has:?}"));
    found.trim_start_matches(fence).to_owned()
}

/// A lab with a cluster on all its hosts.
pub(crate) fn formed(name: &str, hosts: u8) -> Lab {
    formed_of(name, hosts, ETCD_DEFAULT)
}

/// The same with this version of etcd.
pub(crate) fn formed_of(name: &str, hosts: u8, etcd: &str) -> Lab {
    let lab = Lab::builder(name)
        .hosts(hosts)
        .etcd(etcd)
        .package(&deb())
        .boot()
        .unwrap();
    lab.form().unwrap();
    lab
}

/// Three hosts that are not configured yet, with this S3 server behind a bad network.
pub(crate) fn with_bad_store(name: &str, etcd: &str, server: S3Server) -> Lab {
    let lab = Lab::builder(name).hosts(3).etcd(etcd).package(&deb());
    lab.s3_server(server).bad_store().boot().unwrap()
}

/// `etcd-agent` on a host, as root.
pub(crate) fn agent(host: &Host, args: &[&str]) -> Output {
    let mut argv = vec!["etcd-agent"];
    argv.extend(args);
    host.exec_for(Duration::from_mins(3), &argv).unwrap()
}

/// Gives an order again while it ends with an error, because the agent that it is given to was killed.
pub(crate) fn order_until_done(host: &Host, args: &[&str]) -> Output {
    wait_for("the order to be carried out", 4 * SOON, || {
        agent(host, args).ok().map(Some)
    })
    .unwrap()
}

/// The ends of errors of etcdctl and the agent on a machine that is too busy: etcd or another agent did not answer in
/// time, or a step of a verification did not end in time.
const NOT_NOW: [&str; 12] = [
    "context deadline exceeded",
    "request timed out",
    "leader changed",
    "no leader",
    "no connection within",
    "no answer within",
    "has not caught up",
    "could not be asked",
    "does not serve with quorum",
    "did not restore",
    "does not serve after",
    "did not count its keys",
];

/// The output of a command that is repeated while it fails for want of time. Other failures are returned at once.
pub(crate) fn answered(what: &str, mut run: impl FnMut() -> Result<Output>) -> Output {
    wait_for(&format!("an answer to {what}"), 3 * SOON, || {
        let output = run()?;
        let last = output.stderr.lines().last().unwrap_or_default();
        if NOT_NOW.iter().any(|text| last.contains(text)) {
            return output.ok().map(Some);
        }
        Ok(Some(output))
    })
    .unwrap()
}

/// The list that a command prints with `-o json`, under its name.
pub(crate) fn listed(host: &Host, args: &[&str], name: &str) -> Vec<Value> {
    let mut argv = args.to_vec();
    argv.extend(["-o", "json"]);
    let printed = agent(host, &argv).ok().unwrap();
    let mut answer: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(answer["schema"], 1, "{answer}");
    serde_json::from_value(answer[name].take()).unwrap()
}

/// `etcd-agent status -o json`.
pub(crate) fn status(host: &Host) -> Result<Value> {
    let output = agent(host, &["status", "-o", "json"]);
    serde_json::from_str(&output.stdout).with_context(|| {
        format!(
            "status on {}: exit {}: {}",
            host.name(),
            output.code,
            output.stderr
        )
    })
}

/// The command that runs a shell script as the user nobody. The script must not contain single quotes.
pub(crate) fn nobody(script: &str) -> String {
    format!("setpriv --reuid=nobody --regid=nogroup --clear-groups sh -c '{script}'")
}

/// Waits until `status` on a host exits with this code.
pub(crate) fn wait_status(host: &Host, code: i32) {
    let what = format!("status on {} to exit with {code}", host.name());
    wait_until(&what, SOON, || {
        let output = agent(host, &["status"]);
        anyhow::ensure!(
            output.code == code,
            "{}: {}{}",
            output.code,
            output.stdout,
            output.stderr
        );
        Ok(true)
    })
    .unwrap();
}

/// The text of this reason in the decision of a host's agent; the error shows the reasons that it gives
/// instead.
pub(crate) fn reason_now(host: &Host, code: &str) -> Result<Option<String>> {
    let status = status(host)?;
    let reasons = status["decision"]["reasons"].as_array().context("reasons")?;
    let found = reasons.iter().find(|reason| reason["code"] == code);
    let text = found.map(|reason| reason["text"].as_str().unwrap_or_default().to_owned());
    text.map(Some).with_context(|| format!("it says {reasons:?}"))
}

/// Waits until the decision of a host's agent has this reason; returns its text.
pub(crate) fn wait_reason(host: &Host, code: &str) -> String {
    wait_for(&format!("{} to report {code}", host.name()), SOON, || {
        reason_now(host, code)
    })
    .unwrap()
}

/// The same for the agent that is the coordinator (next to the raft leader) at that moment.
pub(crate) fn wait_coordinator_says(lab: &Lab, code: &str) -> String {
    wait_for(&format!("the coordinator to report {code}"), SOON, || {
        reason_now(lab.raft_leader()?, code)
    })
    .unwrap()
}

/// Asserts that a condition stays true for a while.
pub(crate) fn holds_for(what: &str, time: Duration, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(check(), "{what}: no longer true after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn put(lab: &Lab, key: &str, value: &str) {
    let hosts: Vec<&Host> = lab.hosts().iter().filter(|host| host.is_on()).collect();
    wait_until(&format!("a write of {key}"), SOON, || {
        lab.etcdctl(&hosts, &["put", key, value])?.ok()?;
        Ok(true)
    })
    .unwrap();
}

/// Puts `count` values of 1,000,000 bytes each through this host's etcd. The shell expands `key`: `$n` counts
/// from 1. Each put has ten tries.
pub(crate) fn put_megabytes(host: &Host, count: u32, key: &str) {
    let script = format!(
        "for n in $(seq {count}); do left=10; until head -c 750000 /dev/urandom | base64 -w 0 | \
         etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/etcd/tls/ca.crt --cert=/etc/etcd/tls/node.crt \
         --key=/etc/etcd/tls/node.key put {key} >/dev/null; do \
         left=$((left - 1)); test $left -gt 0; sleep 0.5; done; done"
    );
    host.exec_for(3 * SOON, &["sh", "-ec", &script])
        .unwrap()
        .ok()
        .unwrap();
}

/// Every acknowledged write is there, and the longest gap between two of them is small.
pub(crate) fn all_written(lab: &Lab, written: &Written) {
    written.verify_all(lab).unwrap();
    let gap = written.longest_gap;
    eprintln!("{} writes, longest gap {gap:?}", written.acknowledged);
    assert!(gap < GAP, "no write was acknowledged for {gap:?}");
}

/// The value from a linearizable read through this host.
pub(crate) fn get(lab: &Lab, host: &Host, key: &str) -> Result<String> {
    let args = ["get", key, "--print-value-only", "--command-timeout=10s"];
    Ok(lab.etcdctl(&[host], &args)?.ok()?.text().to_owned())
}

pub(crate) fn assert_value(lab: &Lab, host: &Host, key: &str, value: &str) {
    wait_until(&format!("{key} on {}", host.name()), SOON, || {
        let found = get(lab, host, key)?;
        assert_eq!(found, value, "{key} through {}", host.name());
        Ok(true)
    })
    .unwrap();
}

/// Runs `etcdctl` of 3.4 for the v2 API, which a cluster of 3.4 or 3.5 serves with `enable-v2`.
pub(crate) fn etcdctl_v2(lab: &Lab, host: &Host, args: &str) -> Output {
    let (url, tls) = (lab.client_url(host), "/etc/etcd/tls");
    host.sh(&format!(
        "ETCDCTL_API=2 /opt/etcd-v3.4.23/etcdctl --endpoints {url} --ca-file {tls}/ca.crt \
         --cert-file {tls}/node.crt --key-file {tls}/node.key {args}"
    ))
    .unwrap()
}

/// etcd's member IDs by node name, and the cluster ID. Waits for an election to end.
pub(crate) fn member_ids(lab: &Lab, host: &Host) -> Result<(u64, BTreeMap<String, u64>)> {
    wait_for(&format!("the members through {}", host.name()), ELECTION, || {
        members_now(lab, host).map(Some)
    })
}

fn members_now(lab: &Lab, host: &Host) -> Result<(u64, BTreeMap<String, u64>)> {
    let args = ["member", "list", "-w", "json", "--command-timeout=5s"];
    let list: Value = serde_json::from_str(&lab.etcdctl(&[host], &args)?.ok()?.stdout)?;
    let mut members = BTreeMap::new();
    for member in list["members"].as_array().context("members")? {
        let name = member["name"].as_str().unwrap_or_default().to_owned();
        members.insert(name, member["ID"].as_u64().context("ID")?);
    }
    Ok((
        list["header"]["cluster_id"].as_u64().context("cluster_id")?,
        members,
    ))
}

/// The PID of a host's etcd. Waits for an etcd that is being restarted.
pub(crate) fn etcd_pid(host: &Host) -> u32 {
    wait_for(&format!("etcd on {} to run", host.name()), SOON, || {
        host.main_pid("etcd")
    })
    .unwrap()
}

/// Kills the current process of a host's etcd; returns its PID.
pub(crate) fn kill_etcd(host: &Host) -> u32 {
    wait_for(&format!("etcd on {} to be killed", host.name()), SOON, || {
        let Some(pid) = host.main_pid("etcd")? else {
            return Ok(None);
        };
        let killed = host.exec(&["kill", "-s", "KILL", &pid.to_string()])?;
        Ok(killed.success().then_some(pid))
    })
    .unwrap()
}

/// The etcd PIDs of some hosts, to check that none was restarted.
pub(crate) fn etcd_pids<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> BTreeMap<String, u32> {
    hosts
        .into_iter()
        .map(|host| (host.name().to_owned(), etcd_pid(host)))
        .collect()
}

/// Whether there is etcd data on a host's disk.
pub(crate) fn data_there(host: &Host) -> bool {
    let path = DATA.trim_start_matches('/');
    host.disk().join(path).join("member").exists()
}

/// The names of the entries in a host's archive.
pub(crate) fn archived(host: &Host) -> Vec<String> {
    let dir = host.disk().join("var/lib/etcd/etcd-agent-archive");
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

/// Cuts the power of all hosts and removes etcd's data; the agents' memories are kept. With the power on, the
/// others would replace the first member without data.
pub(crate) fn wipe_all(lab: &Lab) {
    lab.each(Host::kill).unwrap();
    lab.each(|host| host.wipe(DATA)).unwrap();
    lab.each(|host| host.boot().map(drop)).unwrap();
}

/// Stops etcd everywhere, waits until its received changes are stored, removes all data, and waits until each
/// agent reports the loss.
pub(crate) fn stop_and_wipe_all(lab: &Lab) {
    lab.each(|host| host.systemctl(&["stop", "etcd"])?.ok().map(drop))
        .unwrap();
    for host in lab.hosts() {
        wait_until("the received changes to be stored", SOON, || {
            Ok(status(host)?["backups"]["increments"]["running"] == false)
        })
        .unwrap();
    }
    wipe_all(lab);
    for host in lab.hosts() {
        wait_reason(host, "all-data-lost");
    }
}

/// All hosts except one.
pub(crate) fn others<'a>(lab: &'a Lab, host: &Host) -> Vec<&'a Host> {
    lab.hosts()
        .iter()
        .filter(|other| other.name() != host.name())
        .collect()
}

/// A host whose etcd is not the raft leader.
pub(crate) fn follower(lab: &Lab) -> &Host {
    let leader = lab.raft_leader().unwrap();
    others(lab, leader).into_iter().next().unwrap()
}

/// The environment of a host's etcd process: the settings in force. Waits for an etcd that is being
/// restarted.
pub(crate) fn etcd_environ(host: &Host) -> BTreeMap<String, String> {
    let text = wait_for(
        &format!("the environment of {}'s etcd", host.name()),
        SOON,
        || {
            let pid = etcd_pid(host);
            let output = host.sh(&format!("tr '\\0' '\\n' </proc/{pid}/environ"))?.ok()?;
            Ok(Some(output.stdout))
        },
    )
    .unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Every cluster that any host's agent was ever assigned to, and that any host's etcd ever ran as, according
/// to their journals and states.
pub(crate) fn clusters_ever(lab: &Lab) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for host in lab.hosts() {
        let path = "var/lib/etcd-agent/state/assignment.json";
        if let Ok(text) = fs::read(host.disk().join(path)) {
            let assignment: Value = serde_json::from_slice(&text).unwrap();
            found.insert(assignment["cluster_id"].to_string().trim_matches('"').to_owned());
        }
        for line in host.journal("etcd").unwrap().lines() {
            if let Some((_, rest)) = line.split_once("\"cluster-id\":\"") {
                found.insert(rest.split('"').next().unwrap_or_default().to_owned());
            }
        }
    }
    found
}

/// Takes a backup that covers everything written so far, and waits for it.
pub(crate) fn backup_now(host: &Host) {
    answered("backup now", || Ok(agent(host, &["backup", "now"])))
        .ok()
        .unwrap();
}

/// Verifies the newest backup, or one of this name. Its steps have only what time the host has left.
pub(crate) fn verify(host: &Host, name: &[&str]) -> Output {
    let verify = [&["etcd-agent", "backup", "verify"], name].concat();
    answered("backup verify", || host.exec_for(Duration::from_mins(8), &verify))
}

/// Verifies the newest backup, which is good.
pub(crate) fn verify_now(host: &Host) -> Output {
    verify(host, &[]).ok().unwrap()
}

/// Stores everything written so far as an increment. The agent begins to follow a new full backup a moment
/// later.
pub(crate) fn increment_now(host: &Host) -> Output {
    wait_for("an increment on demand", SOON, || {
        let stored = agent(host, &["backup", "now", "--increment"]).ok()?;
        Ok(Some(stored))
    })
    .unwrap()
}

/// The directory of each committed backup in the S3 server.
pub(crate) fn backups(lab: &Lab) -> Vec<String> {
    let keys = lab.s3().keys().unwrap();
    keys.iter()
        .filter_map(|key| key.strip_suffix("/backup.json").map(str::to_owned))
        .collect()
}

/// The revision of etcd, by a read through quorum on this host.
pub(crate) fn revision(lab: &Lab, host: &Host) -> u64 {
    let args = ["get", "x", "-w", "json", "--command-timeout=10s"];
    let answer = answered("a read", || lab.etcdctl(&[host], &args)).ok().unwrap();
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    answer["header"]["revision"].as_u64().unwrap()
}

/// Waits until the store has every change, in a full backup or in increments; returns the newest revision.
pub(crate) fn wait_stored(lab: &Lab, host: &Host) -> u64 {
    let revision = revision(lab, host);
    wait_until("all changes to be in the store", SOON, || {
        let answer = agent(host, &["backup", "list", "-o", "json"]).ok()?;
        let answer: Value = serde_json::from_str(&answer.stdout)?;
        let list = answer["backups"].as_array().context("no list")?;
        let covered = list.iter().filter_map(|backup| backup["covered"].as_u64()).max();
        anyhow::ensure!(covered >= Some(revision), "{covered:?} of {revision}");
        Ok(true)
    })
    .unwrap();
    revision
}

pub(crate) fn restart(host: &Host, unit: &str) {
    host.systemctl(&["restart", unit]).unwrap().ok().unwrap();
}

/// How often the agent of a host has logged this line.
pub(crate) fn logged(host: &Host, line: &str) -> usize {
    host.journal("etcd-agent").unwrap().matches(line).count()
}

/// Waits until the agent of a host has logged this line.
pub(crate) fn wait_logged(host: &Host, line: &str) {
    let what = format!("{} to log {line:?}", host.name());
    wait_until(&what, SOON, || Ok(logged(host, line) > 0)).unwrap();
}

pub(crate) fn healthy(lab: &Lab) {
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
}

/// The version of etcd that runs on each node.
pub(crate) fn versions(lab: &Lab) -> Result<BTreeMap<String, String>> {
    let version = |host: &Host| {
        let status = status(host)?;
        let version = &status["node"]["etcd"]["value"]["version"];
        Ok((
            host.name().to_owned(),
            version.as_str().unwrap_or_default().to_owned(),
        ))
    };
    lab.hosts().iter().map(version).collect()
}

pub(crate) fn all_run(lab: &Lab, version: &str) {
    wait_until(&format!("all to run etcd {version}"), SOON, || {
        let versions = versions(lab)?;
        anyhow::ensure!(versions.values().all(|found| found == version), "{versions:?}");
        Ok(true)
    })
    .unwrap();
}
