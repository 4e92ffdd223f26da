//! The agent is reloaded and restarted next to a healthy cluster, which is never reported as dead meanwhile.

use std::time::Duration;

use crate::common::{
    SOON, agent, etcd_pid, etcd_pids, formed, holds_for, listed, member_ids, nobody, wait_status,
};
use etcd_agent_lab::{Host, Lab, wait_until};

const BAD: &str = "/etc/etcd-agent/config.d/50-bad.toml";

/// Repeats a command. After each time `status` has to exit with 0 at once.
fn always_healthy(host: &Host, times: u32, act: &str) {
    let script = format!(
        "for i in $(seq {times}); do\n\
           {act} || {{ echo \"no. $i failed\"; exit 1; }}\n\
           etcd-agent status >/tmp/status 2>&1 || {{ echo \"status no. $i exits with $?\"; cat /tmp/status; exit 1; }}\n\
         done"
    );
    let done = host
        .exec_for(Duration::from_mins(10), &["sh", "-c", &script])
        .unwrap();
    assert_eq!(done.code, 0, "{act}: {}{}", done.stdout, done.stderr);
}

fn events(host: &Host) -> u64 {
    let newest = listed(host, &["events", "-n", "1"], "events");
    newest[0]["seq"].as_u64().unwrap_or_else(|| panic!("no events"))
}

#[test]
fn h01_h02_reloads_and_restarts_never_make_a_healthy_cluster_look_dead() {
    let lab = formed("h01", 1);
    let n1 = lab.host(1).unwrap();
    wait_status(n1, 0);
    // The fields on which scripts match.
    let started = n1
        .journalctl(&[
            "-u",
            "etcd-agent",
            "MESSAGE_ID=31eea5df251e4e0ebd5543d1aae59e86",
            "ETCD_AGENT_DECISION=start-etcd",
        ])
        .unwrap();
    assert!(started.contains("start-etcd"), "{started}");
    let pid = etcd_pid(n1);
    let before = events(n1);
    assert!(before > 0, "it has formed a cluster");
    // With peers, `b01_h01_` does each 50 times.
    always_healthy(n1, 10, "systemctl reload etcd-agent");
    assert!(events(n1) >= before, "events outlive a reload");
    always_healthy(n1, 10, "systemctl restart etcd-agent");
    let journal = n1.journalctl(&["-u", "etcd-agent"]).unwrap();
    assert!(
        !journal.contains("could not be stored before the end"),
        "etcd was idle, and an agent that stops waited for changes:\n{journal}"
    );

    // B16: a restarted journal receives the agent's messages too.
    n1.systemctl(&["restart", "systemd-journald"])
        .unwrap()
        .ok()
        .unwrap();

    // An invalid configuration fails the reload and changes nothing, whatever the error is.
    for (text, said) in [
        ("[cluster]\ngrace = \"5 parsecs\"\n", "50-bad.toml:2"),
        (
            "[api.tls]\ncert_file = \"/nowhere.crt\"\nkey_file = \"/nowhere.key\"\nca_file = \"/nowhere.ca\"\n",
            "/nowhere",
        ),
        (
            "[etcd.settings]\ncompaction-batch-limit = \"10\"\n",
            "50-bad.toml:2: etcd.settings.compaction-batch-limit: etcd 3.5.35 runs here and would ignore it",
        ),
    ] {
        n1.write_file(BAD, text, "0644", "root:root").unwrap();
        let reload = n1.systemctl(&["reload", "etcd-agent"]).unwrap();
        assert_ne!(reload.code, 0, "{said}: {}{}", reload.stdout, reload.stderr);
        let journal = n1
            .journalctl(&[
                "-u",
                "etcd-agent",
                "SYSLOG_IDENTIFIER=etcd-agent",
                "_TRANSPORT=journal",
            ])
            .unwrap();
        assert!(journal.contains(said), "{journal}");
        let by_hand = agent(n1, &["reload"]);
        assert_eq!(by_hand.code, 2, "{}", by_hand.stderr);
        assert!(by_hand.stderr.contains(said), "{}", by_hand.stderr);
        let loaded = agent(n1, &["config", "is-loaded"]);
        assert_eq!(loaded.code, 1, "{}{}", loaded.stdout, loaded.stderr);
        // The error is reported, and nothing else is wrong.
        assert_eq!(agent(n1, &["status"]).code, 6);
        assert_eq!(n1.unit_property("etcd-agent", "ActiveState").unwrap(), "active");
    }
    n1.sh(&format!("rm {BAD} && systemctl reload etcd-agent"))
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(agent(n1, &["status"]).code, 0);
    let loaded = agent(n1, &["config", "is-loaded"]).ok().unwrap();
    assert!(
        loaded.stdout.contains("works with the files"),
        "{}",
        loaded.stdout
    );
    assert_eq!(etcd_pid(n1), pid, "etcd was not restarted");

    a_hidden_drop_in_is_not_written_again(n1);
    metrics_are_served_locally(n1);
    lab.passed();
}

/// The agent's user may not enter the directory of etcd's drop-ins. root's oneshot may, and what it reports stays in
/// force.
fn a_hidden_drop_in_is_not_written_again(n1: &Host) {
    n1.sh("chmod 0750 /etc/systemd/system/etcd.service.d && systemctl restart etcd-agent")
        .unwrap()
        .ok()
        .unwrap();
    wait_status(n1, 0);
    holds_for(
        "etcd's settings are not written again",
        Duration::from_secs(3),
        || {
            let events = listed(n1, &["events", "-n", "512"], "events");
            !events.iter().any(|event| event["decision"] == "apply")
        },
    );
    let journal = n1.journalctl(&["-u", "etcd-agent"]).unwrap();
    assert!(
        journal.contains("may not look at /etc/systemd/system/etcd.service.d/"),
        "{journal}"
    );
    n1.sh("chmod 0755 /etc/systemd/system/etcd.service.d")
        .unwrap()
        .ok()
        .unwrap();
}

/// H6: what any local user may read: the metrics and the status page.
fn metrics_are_served_locally(n1: &Host) {
    let metrics = n1
        .sh(&nobody("curl -sS http://127.0.0.1:2381/metrics"))
        .unwrap()
        .ok()
        .unwrap();
    for line in [
        "etcd_agent_etcd_up 1",
        "etcd_agent_health{state=\"healthy\"} 1",
        "etcd_agent_health{state=\"down\"} 0",
        "etcd_agent_etcd_quota_bytes 2147483648",
        "etcd_agent_backup_interval_seconds 900",
        "etcd_agent_last_loop_timestamp_seconds 1",
        "etcd_agent_etcd_certificate_expiry_timestamp_seconds ",
        "etcd_agent_wanted_voters ",
        "etcd_agent_conflicts 0",
        "etcd_agent_paused 0",
        "etcd_agent_build_info{version=\"",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_virtual_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_threads ",
        "process_start_time_seconds ",
    ] {
        assert!(metrics.stdout.contains(line), "{line} in {}", metrics.stdout);
    }
    // A page of a foreign site would ask under a name of its own.
    let page = |host: &str| {
        let ask = format!("curl -sS -w %{{http_code}} -H Host:{host} http://127.0.0.1:2381/");
        n1.sh(&nobody(&ask)).unwrap().stdout
    };
    assert!(
        page("localhost").contains("<title>Healthy: prod"),
        "{}",
        page("localhost")
    );
    assert!(page("evil.example").ends_with("421"), "{}", page("evil.example"));
    let other = n1
        .sh(&nobody(
            "curl -sS -o /dev/null -w %{http_code} http://127.0.0.1:2381/v1/status",
        ))
        .unwrap();
    assert_eq!(other.stdout, "404", "metrics, the status page, and nothing else");
}

/// The name of a healthy member's host no longer resolves on the others. That says nothing about its etcd,
/// and no spare takes its place.
#[test]
fn b01_h01_a_member_whose_name_does_not_resolve_is_not_dead() {
    let lab = Lab::builder("b01")
        .hosts(4)
        .package(&crate::common::deb())
        .boot()
        .unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| {
        config.size = 3;
        config.membership = "grace = \"3s\"\n".to_owned();
    })
    .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    wait_status(n1, 0);
    let (_, members) = member_ids(&lab, n1).unwrap();
    let victim = members
        .keys()
        .find(|name| *name != "n1")
        .map(|name| lab.host_named(name).unwrap())
        .unwrap();
    let others: Vec<&Host> = crate::common::others(&lab, victim);
    let voters = || {
        lab.hosts()
            .iter()
            .filter(|host| members.contains_key(host.name()))
    };
    let pids = etcd_pids(voters());

    // A reloaded agent whose peers are all present reports that at once.
    always_healthy(n1, 50, "systemctl reload etcd-agent");
    always_healthy(n1, 50, "systemctl restart etcd-agent");

    let name = victim.name();
    for host in &others {
        host.sh(&format!(
            "sed '/ {name}$/d' /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts && systemctl restart etcd-agent"
        ))
        .unwrap()
        .ok()
        .unwrap();
    }
    for host in &others {
        wait_until("the missing name to be reported", SOON, || {
            let output = agent(host, &["status"]);
            Ok(output.stdout.contains("does not resolve"))
        })
        .unwrap();
    }
    holds_for("nobody is replaced", Duration::from_secs(10), || {
        member_ids(&lab, n1).unwrap().1 == members
    });
    for host in &others {
        host.sh(&format!("echo '{} {name}' >>/etc/hosts", victim.address()))
            .unwrap()
            .ok()
            .unwrap();
    }
    wait_status(n1, 0);
    assert_eq!(member_ids(&lab, n1).unwrap().1, members);
    assert_eq!(etcd_pids(voters()), pids, "etcd was not restarted");
    lab.passed();
}
