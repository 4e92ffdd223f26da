//! Attacks by a node that lies with a valid certificate (F2) and by somebody with write access to the bucket
//! (F3). Each is refused and logged, and stops no etcd.

use std::time::Duration;

use crate::common::{
    DATA, PEER_API, SOON, agent, archived, backup_now, backups, etcd_pid, etcd_pids, follower, formed,
    healthy, logged, member_ids, others, reason_now, restart, status, wait_logged, wait_reason,
};
use anyhow::Context;
use etcd_agent_lab::{Cmd, Host, Lab, Load, wait_until};
use serde_json::{Value, json};

/// The port of etcd's peers.
const ETCD_PEERS: u16 = 2380;
const STATE: &str = "/var/lib/etcd-agent/state";

/// The log line of an agent when a majority denies a reported epoch.
fn denied(epoch: u64, who: &str) -> String {
    format!("ignoring epoch {epoch}, reported by {who}: it is denied by a majority of the electors")
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

    /// Changes the elector memory of the liar's agent.
    fn forge_memory(&self, change: impl FnOnce(&mut Value)) {
        self.forge("elector.json", || {
            let mut memory = self.memory();
            change(&mut memory);
            memory
        });
    }

    /// Replaces a file of the state of the liar's agent, which is stopped meanwhile. Its certificate and its
    /// programs do not change.
    fn forge(&self, file: &str, content: impl FnOnce() -> Value) {
        self.liar
            .systemctl(&["stop", "etcd-agent"])
            .unwrap()
            .ok()
            .unwrap();
        let (path, owner) = (format!("{STATE}/{file}"), "etcd-agent:etcd-agent");
        self.liar
            .write_file(&path, content().to_string(), "0600", owner)
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

    /// Writes the liar's register of operators' orders, in which all others are ordered out.
    fn orders_the_others_out(&self, version: u64) {
        let out: Vec<&str> = self.honest.iter().map(|host| host.name()).collect();
        let register = json!({ "version": version, "by": self.liar.name(), "out": out });
        self.forge("directives.json", || register);
    }

    /// F2e: the liar's register orders all others out, with a version that later orders hardly exceed, or with
    /// a plausible one. No other agent takes it over, and operators can still give orders there. The liar's etcd is cut
    /// off from the others, so that it is not the raft leader: its own agent would carry out the order there.
    fn reports_orders(&self) {
        let (pids, name) = (etcd_pids(self.lab.hosts()), self.liar.name());
        let [first, last] = [self.honest.first().unwrap(), self.honest.last().unwrap()];
        let members = member_ids(self.lab, first).unwrap();
        self.lab.net().cut_port(name, ETCD_PEERS).unwrap();
        wait_until("another raft leader", SOON, || {
            let lead = self.honest.iter().map(|host| {
                let etcd = status(host)?["node"]["etcd"]["value"].clone();
                Ok(!etcd["leader"].is_null() && etcd["leader"] == etcd["member_id"])
            });
            let lead: anyhow::Result<Vec<bool>> = lead.collect();
            Ok(lead?.contains(&true))
        })
        .unwrap();
        let refused = |version: u64, why: &str| {
            let orders = format!("operators' orders as {name} reports them (version {version} by {name}, ");
            for host in &self.honest {
                wait_words(host, "orders-refused", &orders);
                wait_words(host, "orders-refused", why);
                let own = status(host).unwrap()["node"]["steering"]["directives"].clone();
                assert_eq!((&own["version"], &own["out"]), (&json!(0), &json!([])), "{own}");
            }
        };
        // The highest version that an agent believes of its own file.
        self.orders_the_others_out(u64::MAX / 2);
        refused(
            u64::MAX / 2,
            "are not taken over: it is too far ahead of version 0",
        );
        // The liar's agent does not report a higher one.
        self.orders_the_others_out(u64::MAX);
        for host in &self.honest {
            wait_gone(host, "operators' orders as");
        }
        let unbelieved = format!(
            "not believed (version {} leaves no room for later orders)",
            u64::MAX
        );
        wait_logged(self.liar, &unbelieved);
        assert_eq!(logged(self.liar, &unbelieved), 1);
        self.orders_the_others_out(9);
        refused(
            9,
            "are not taken over: it orders out so many that fewer than a majority",
        );
        // Logged when the reasons change, and not at each look, of which there is at least one a second.
        let reported = format!("operators' orders as {name} reports them (version 9 by");
        for host in &self.honest {
            wait_logged(host, &reported);
            // On a busy host other reasons come and go.
            wait_until("few lines of it in 8 s", SOON, || {
                let before = logged(host, &reported);
                std::thread::sleep(Duration::from_secs(8));
                let more = logged(host, &reported) - before;
                anyhow::ensure!(more <= 4, "{}: {more} lines more within 8 s", host.name());
                Ok(true)
            })
            .unwrap();
        }
        assert_eq!(member_ids(self.lab, first).unwrap(), members);
        assert_eq!(etcd_pids(self.lab.hosts()), pids, "{name} orders the others out");

        agent(first, &["pause"]).ok().unwrap();
        wait_reason(last, "paused");
        agent(last, &["resume"]).ok().unwrap();
        for host in &self.honest {
            wait_gone(host, "ordered a pause");
        }

        // Without its register, the liar's agent takes over that of the others.
        self.forge("directives.json", || json!({ "version": 0 }));
        wait_until("the liar to have the orders of the others", SOON, || {
            let own = status(self.liar)?["node"]["steering"]["directives"].clone();
            anyhow::ensure!(own["version"] == 2 && own["out"] == json!([]), "{own}");
            Ok(true)
        })
        .unwrap();
        self.lab.heal_all().unwrap();
        for host in &self.honest {
            wait_gone(host, "operators' orders as");
        }
        healthy(self.lab);
        assert_eq!(member_ids(self.lab, first).unwrap(), members);
        assert_eq!(etcd_pids(self.lab.hosts()), pids, "{name} has lost its orders");
    }

    /// F3: somebody writes the record of an epoch into the bucket. An agent reads the store after a backup of
    /// its own, at its start, and every five minutes.
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
        let denials = |host: &Host| logged(host, &denied(epoch, "the store"));
        let mut before = Vec::new();
        for host in self.lab.hosts() {
            host.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
            before.push(denials(host));
            restart(host, "etcd-agent");
        }
        for host in self.lab.hosts() {
            wait_words(host, code, words);
        }
        if code == "epoch-denied" {
            for (host, before) in self.lab.hosts().iter().zip(before) {
                // Once in each run of the agent that has read it.
                let least = usize::from(host.name() == running.name());
                assert!((least..=1).contains(&before), "{}: {before}", host.name());
                assert_eq!(denials(host) - before, 1, "{}", host.name());
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
    cluster.reports_orders();
    cluster.writes_into_the_store(2, "epoch-denied", "the store (epoch 2)");
    let far = format!("the store reports epoch {}", u64::MAX);
    cluster.writes_into_the_store(u64::MAX, "epoch-refused", &far);
    cluster.reports_a_genesis(&load);
    load.stop().unwrap().verify_all(&lab).unwrap();
    lab.passed();
}
