//! What happens to TLS while clients write. A cluster moves to plain HTTP and back to TLS by changes of the
//! configuration, its agents as well. Then the authority of all certificates is replaced: both are trusted, all
//! certificates are issued again, the old authority is dropped. etcd reads its authorities only when it starts, so the
//! agents restart it. Agents are killed at each step, and a host loses its power.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{SOON, STEADY, agent, all_written, deb, etcd_pids, reason_now, status};
use crate::down_times::{now, one_at_a_time};
use crate::files_at_fault::{self, TABLES, reload};
use crate::killer::Killers;
use crate::stops::ok_to_stop;
use etcd_agent_lab::{Authority, Cmd, Host, Lab, wait_until};
use serde_json::Value;

const DIRS: [(&str, &str); 2] = [("/etc/etcd-agent/tls", "etcd-agent"), ("/etc/etcd/tls", "etcd")];

/// Replaces the file of the authorities of each service.
fn trust(host: &Host, authorities: &str) {
    for (dir, group) in DIRS {
        let path = format!("{dir}/ca.crt");
        let owner = format!("root:{group}");
        host.write_file(&path, authorities.as_bytes(), "0644", &owner)
            .unwrap();
    }
}

/// Waits until each etcd is another process than before.
fn wait_restarted(lab: &Lab, before: &BTreeMap<String, u32>) {
    wait_until("all etcds to be restarted", SOON, || {
        let now = etcd_pids(lab.hosts());
        Ok(now.iter().all(|(name, pid)| before.get(name) != Some(pid)))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
}

/// Whether etcd on this host answers a client whose certificate `issuer` has issued.
fn serves(lab: &Lab, host: &Host, issuer: &Authority) -> bool {
    let dir = lab.dir().join("another-client");
    let pair = issuer.issue("client", &["client".to_owned()]).unwrap();
    let (cert, key) = pair.save(&dir, "client").unwrap();
    let ca = lab.ca().unwrap().cert_path();
    let file = |path: &Path| path.to_str().unwrap().to_owned();
    let etcdctl = lab.etcd_program("etcdctl");
    let output = lab.outside(|| {
        Cmd::new(&etcdctl)
            .args(["--endpoints", &lab.client_url(host), "--cacert", &file(&ca)])
            .args([
                "--cert",
                &file(&cert),
                "--key",
                &file(&key),
                "--command-timeout=5s",
            ])
            .args(["endpoint", "health"])
            .run()
    });
    output.unwrap().success()
}

/// The clients of the lab use this authority from now on.
fn clients_use(lab: &Lab, authority: &Authority) {
    let ours = lab.ca().unwrap().cert_path();
    for extension in ["crt", "key"] {
        let file = authority.cert_path().with_extension(extension);
        fs::copy(file, ours.with_extension(extension)).unwrap();
    }
    fs::remove_dir_all(lab.dir().join("client")).unwrap();
}

const CONFIG: &str = "/etc/etcd-agent/config.toml";
const PLAIN_PORT: u16 = 12379;

/// Takes the tables of etcd's TLS away from this host, which has to be accepted.
fn drop_tables(host: &Host) {
    assert!(host.exec(&["rm", TABLES]).unwrap().success());
    accept_loss(host, "etcd.client_tls");
}

/// The configuration of this host has lost this table: it is in force only once that is accepted.
fn accept_loss(host: &Host, table: &str) {
    let refused = host.systemctl(&["reload", "etcd-agent"]).unwrap();
    assert!(!refused.success(), "nothing takes TLS away unnoticed");
    let check = agent(host, &["config", "check"]);
    assert!(
        check.code != 0 && check.stderr.contains(&format!("{table}: is missing")),
        "{}",
        check.stderr
    );
    agent(host, &["config", "check", "--accept-losses"]).ok().unwrap();
    reload(host);
}

/// Waits until each agent sees all others.
fn wait_in_sight(lab: &Lab) {
    wait_until("the agents to see each other", SOON, || {
        for host in lab.hosts() {
            let seen = status(host)?;
            let peers = seen["peers"].as_object().unwrap();
            let known = peers.values().filter(|peer| peer["fact"] == "known").count();
            anyhow::ensure!(known == 2, "{}: {}", host.name(), seen["peers"]);
        }
        Ok(true)
    })
    .unwrap();
}

/// Whether the agent on this host answers a client in plain HTTP.
fn answers_plainly(host: &Host) -> bool {
    let url = format!("http://{}:2378/metrics", host.name());
    host.exec(&[
        "curl",
        "--silent",
        "--max-time",
        "5",
        "--output",
        "/dev/null",
        &url,
    ])
    .unwrap()
    .success()
}

/// The agents move to plain HTTP and back to TLS, host after host. Those that differ do not see each other meanwhile.
/// They change nothing, and etcd runs on.
fn the_agents_themselves_move(lab: &Lab) {
    let pids = etcd_pids(lab.hosts());
    let members = agent(&lab.hosts()[0], &["member", "list", "-o", "json"])
        .ok()
        .unwrap();
    let configs: Vec<String> = lab
        .hosts()
        .iter()
        .map(|host| host.read_file(CONFIG).unwrap())
        .collect();
    for (host, with) in lab.hosts().iter().zip(&configs) {
        assert!(!answers_plainly(host), "{} speaks TLS", host.name());
        let (head, rest) = with.split_once("\n[api.tls]").unwrap();
        let (_, tail) = rest.split_once("\n[etcd]").unwrap();
        let without = format!("{head}\n[etcd]{tail}");
        host.write_file(CONFIG, without.as_bytes(), "0644", "root:root")
            .unwrap();
        accept_loss(host, "api.tls");
    }
    wait_in_sight(lab);
    assert!(lab.hosts().iter().all(answers_plainly));

    for (host, with) in lab.hosts().iter().zip(&configs) {
        host.write_file(CONFIG, with.as_bytes(), "0644", "root:root")
            .unwrap();
        reload(host);
        if host.name() == "n1" {
            wait_until("n1 to be alone", SOON, || {
                let seen = status(host)?;
                Ok(["n2", "n3"]
                    .iter()
                    .all(|peer| seen["peers"][peer]["fact"] != "known"))
            })
            .unwrap();
        }
    }
    wait_in_sight(lab);
    assert!(!lab.hosts().iter().any(answers_plainly), "TLS again");
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was restarted");
    let again = agent(&lab.hosts()[0], &["member", "list", "-o", "json"])
        .ok()
        .unwrap();
    let ids = |text: &str| -> Vec<String> {
        let list: Value = serde_json::from_str(text).unwrap();
        let mut ids: Vec<_> = list["members"]
            .as_array()
            .unwrap_or(&Vec::new())
            .iter()
            .map(|m| m["id"].to_string())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&again.stdout), ids(&members.stdout));
}

/// Over what etcd on this host speaks, as its agent reports: of the process that runs and of the next start.
fn transport(host: &Host) -> Value {
    let view = status(host).map(|status| status["node"]["transport"].clone());
    let view = view.unwrap_or_default();
    serde_json::json!([view["runs"], view["assigned"]])
}

/// Waits until all members run over TLS, or none does, and are listed like that.
fn wait_moved(lab: &Lab, tls: bool) {
    let goal = serde_json::json!({"client_tls": tls, "dials_tls": tls, "listens_tls": tls});
    let scheme = if tls { "https:" } else { "http:" };
    wait_until(&format!("all members over {scheme}"), SOON, || {
        for host in lab.hosts() {
            let found = transport(host);
            anyhow::ensure!(
                found == serde_json::json!([goal, goal]),
                "{}: {found}",
                host.name()
            );
        }
        let listed = agent(&lab.hosts()[0], &["member", "list", "-o", "json"]).stdout;
        anyhow::ensure!(listed.matches(&format!("{scheme}//n")).count() >= 3, "{listed}");
        Ok(true)
    })
    .unwrap();
}

/// Three members with TLS whose tables are in a file of their own, and with a second port for clients.
/// Returns the tables, too.
fn formed_with_plain_port() -> (Lab, String) {
    let lab = Lab::builder("authorities")
        .hosts(3)
        .etcd("3.6.16")
        .package(&deb())
        .boot()
        .unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    let tls = lab.host(1).unwrap().read_file(CONFIG).unwrap();
    let (_, tables) = tls.split_once("\n[etcd.client_tls]").unwrap();
    let (tables, _) = tables.split_once("\n[store]").unwrap();
    let tables = format!("[etcd.client_tls]{tables}");
    for host in lab.hosts() {
        let own = host.read_file(CONFIG).unwrap();
        let own = own.replace(&format!("\n{tables}"), "");
        assert!(!own.contains("_tls]"), "{own}");
        let own = own.replace("[api]\n", "[api]\ninsecure = true\n");
        let own = own.replace("[etcd]\n", &format!("[etcd]\nplain_client_port = {PLAIN_PORT}\n"));
        // The test moves the leader, and no busy host does.
        let own = own + "\n" + STEADY;
        host.write_file(TABLES, tables.as_bytes(), "0644", "root:root")
            .unwrap();
        host.write_file(CONFIG, own.as_bytes(), "0644", "root:root")
            .unwrap();
    }
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    (lab, tables)
}

/// From TLS to plain HTTP and back, host after host, while clients write on the second port and agents are
/// killed.
fn moves_to_plain_http_and_back(lab: &Lab, tables: &str) {
    let load = lab.start_plain_load("moves", PLAIN_PORT).unwrap();
    load.wait_for(50, SOON).unwrap();

    for host in lab.hosts() {
        drop_tables(host);
    }
    wait_moved(lab, false);
    load.wait_for(50, SOON).unwrap();
    the_agents_themselves_move(lab);

    // Back to TLS. Each agent dies at the first decision of each kind.
    let since = now(lab);
    let killers = Killers::on(lab, "killer-of-the-move");

    let (n1, last) = (lab.host(1).unwrap(), lab.host(3).unwrap());
    for host in [n1, lab.host(2).unwrap()] {
        host.write_file(TABLES, tables.as_bytes(), "0644", "root:root")
            .unwrap();
        reload(host);
    }
    wait_until("n1 to wait for n3 alone", SOON, || {
        Ok(reason_now(n1, "transport-waits")?.is_some_and(|text| text.ends_with(": n3")))
    })
    .unwrap();
    last.write_file(TABLES, tables.as_bytes(), "0644", "root:root")
        .unwrap();
    reload(last);
    wait_moved(lab, true);
    killers.all_at(&["assign", "apply", "update-member", "move-leader", "restart-etcd"]);
    // The last etcd may still be starting.
    lab.wait_healthy(3, SOON).unwrap();
    one_at_a_time(lab, &since);
    load.wait_for(50, SOON).unwrap();
    let written = load.stop().unwrap();
    all_written(lab, &written);
}

#[test]
fn s10_a_cluster_moves_to_plain_http_and_back_and_its_authority_is_replaced_under_writes() {
    let (lab, tables) = formed_with_plain_port();
    moves_to_plain_http_and_back(&lab, &tables);
    an_authority_is_replaced(&lab);
    files_at_fault::a_member_is_not_restarted_into_files_that_do_not_work(&lab, &tables);
    lab.passed();
}

fn an_authority_is_replaced(lab: &Lab) {
    let old = lab.ca().unwrap();
    // It has the name of the old one, as after a renewal with another key.
    let new = Authority::open(&lab.dir().join("new-ca"), "lab CA").unwrap();
    let load = lab.start_load("a").unwrap();
    load.wait_for(50, SOON).unwrap();

    // Agents die at each step, and a host loses its power after the first restart.
    let before = etcd_pids(lab.hosts());
    let since = now(lab);
    let killers = Killers::on(lab, "killer-of-both");
    for host in lab.hosts() {
        trust(host, &format!("{}{}", old.cert(), new.cert()));
    }
    wait_until("the first restart", SOON, || Ok(etcd_pids(lab.hosts()) != before)).unwrap();
    let follower = crate::common::follower(lab);
    follower.kill().unwrap();
    follower.boot().unwrap();
    wait_restarted(lab, &before);
    killers.all_at(&["restart-etcd"]);
    // The host that lost its power may have to be restarted once more: its etcd may have read the former file. Such a
    // restart has to end, and must not be taken for one of the next step.
    for node in ["n2", "n3"] {
        ok_to_stop(lab.host(1).unwrap(), &[node]);
    }
    one_at_a_time(lab, &since);
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(lab).unwrap();

    let before = etcd_pids(lab.hosts());
    for host in lab.hosts() {
        for (dir, group) in DIRS {
            let pair = new.issue_for(host).unwrap();
            // ca.crt is left alone. An agent that reads it with one authority, even for a moment, restarts etcd.
            for (file, content, mode) in [("node.crt", &pair.cert, "0644"), ("node.key", &pair.key, "0640")] {
                let (path, owner) = (format!("{dir}/{file}"), format!("root:{group}"));
                host.write_file(&path, content.as_bytes(), mode, &owner).unwrap();
            }
        }
    }
    clients_use(lab, &new);
    // A certificate is read for each connection.
    let wait_serves = |host: &Host| {
        let what = format!("{} to serve with the new authority", host.name());
        wait_until(&what, SOON, || Ok(serves(lab, host, &new))).unwrap();
    };
    for host in lab.hosts() {
        wait_serves(host);
    }
    assert_eq!(etcd_pids(lab.hosts()), before, "no restart for that");

    let load = lab.start_load("b").unwrap();
    load.wait_for(50, SOON).unwrap();
    let since = now(lab);
    let killers = Killers::on(lab, "killer-of-the-old");
    for host in lab.hosts() {
        trust(host, new.cert());
    }
    wait_restarted(lab, &before);
    killers.all_at(&["move-leader", "restart-etcd"]);
    one_at_a_time(lab, &since);
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(lab).unwrap();
    for host in lab.hosts() {
        assert!(
            !serves(lab, host, &old),
            "{} trusts the old authority",
            host.name()
        );
        wait_serves(host);
    }
}
