//! The commands of the README, as they are written there: one node, three nodes, and what is given at 2 a.m.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_agent_lab::{Builder, Cmd, Host, Lab, Output, S3, Suite, wait_until};
use serde_json::Value;

use crate::common::{SOON, block, deb, listed, wait_reason};
use crate::managed::{replaced, with_addresses};
use crate::stops::ok_to_stop;

const README: &str = include_str!("../../../../README.md");

/// The time in the README's example of a restore.
const TIME: &str = "2026-03-01T12:00:00Z";

/// The exit codes of `etcd-agent status`, as the README has them.
const STATUS: [i32; 5] = [0, 3, 6, 7, 8];

/// What is given at 2 a.m. also on one node, and asks nothing.
const LOOKS: [&str; 7] = [
    "etcd-agent status",
    "etcd-agent events",
    "etcd-agent pause",
    "etcd-agent resume",
    "etcd-agent backup list",
    "etcd-agent backup verify",
    "etcd-agent restore latest --to /var/tmp/look",
];

/// How a question on the terminal ends.
const QUESTION: &str = "Type yes to go on: ";

/// Pastes a script of the README in root's home.
fn pasted(host: &Host, script: &str) -> Output {
    let script = format!("cd /root; export DEBIAN_FRONTEND=noninteractive\n{script}");
    host.exec_for(Duration::from_mins(5), &["sh", "-ec", &script])
        .unwrap()
}

/// The same, with exit code 0.
fn run(host: &Host, script: &str) -> Output {
    pasted(host, script).ok().unwrap()
}

/// Types a command on a terminal, as a person does, and `yes` if it is to ask.
fn type_in(host: &Host, command: &str, asks: bool) {
    let answer = if asks { "yes\\n" } else { "" };
    let script = format!("printf '{answer}' | script --quiet --return --command '{command}' /dev/null");
    let shown = run(host, &script).stdout;
    assert_eq!(shown.contains(QUESTION), asks, "{command} shows {shown}");
}

fn readme(has: &str) -> String {
    block(README, "\n", has)
}

fn copy(from: &Host, to: &Host, file: &str) {
    let at = |host: &Host| host.disk().join("root").join(file);
    Cmd::new("cp").arg(at(from)).arg(at(to)).ok().unwrap();
}

/// A backup was restored to look at it.
fn was_built(host: &Host) {
    assert!(run(host, "ls /var/tmp/look/member").text().contains("snap"));
}

/// The distribution's etcd is of this minor.
fn has_etcd(host: &Host, minor: &str) {
    let version = run(host, "etcd --version");
    assert!(version.text().contains(minor), "{}", version.text());
}

/// One node on Debian 13, whose etcd runs already and is taken over.
fn one_node(host: &Host) {
    has_etcd(host, " 3.5.");
    run(host, "etcdctl put hello world");
    run(host, &readme("etcd-agent init"));
    assert!(run(host, "etcdctl get hello").text().contains("world"));
    for command in LOOKS {
        type_in(host, command, false);
    }
    was_built(host);
}

/// Three nodes on Debian 12, where the distribution's empty etcd runs. It is 3.4.
fn three_nodes(lab: &Lab, hosts: &[Host]) {
    for host in hosts {
        has_etcd(host, " 3.4.");
        run(host, &readme("etcd-agent discard-empty"));
    }
    let makes = with_addresses(lab, &readme("make-certificates"));
    let made = run(&hosts[0], &makes);
    assert_eq!(made.text(), "n1.tar\nn2.tar\nn3.tar", "{}", made.stderr);
    assert!(!made.stderr.contains("warning"), "{}", made.stderr);

    let config = with_addresses(lab, &block(README, "toml\n", "[etcd.peer_tls]"));
    let config = replaced(
        &config,
        "s3://backups/prod",
        &format!("s3://{}/readme", S3::BUCKET),
    );
    let server = format!(
        "region = \"{}\"\nendpoint = \"{}\"\npath_style = true",
        S3::REGION,
        lab.s3().endpoint()
    );
    let config = replaced(&config, "region = \"us-east-1\"", &server);
    let set_up = readme("tar -xpf");
    let last = set_up.lines().last().unwrap();
    assert_eq!(last, "etcd-agent status");
    for host in hosts {
        if host.name() != "n1" {
            copy(&hosts[0], host, &format!("{}.tar", host.name()));
        }
        let file = |name: &str, content: &str| {
            host.write_file(&format!("/root/{name}"), content, "0600", "root:root")
                .unwrap();
        };
        file("config.toml", &config);
        file("aws-credentials", &lab.s3().credentials_file());
        // The exit code is that of `status`, which says no while the cluster waits for the other nodes.
        let done = pasted(host, &set_up);
        assert!(STATUS.contains(&done.code), "{done:?}");
    }
    for host in hosts {
        wait_until(&format!("{last} on {} to say yes", host.name()), SOON, || {
            pasted(host, last).ok().map(|_| true)
        })
        .unwrap();
        assert!(wait_reason(host, "etcd-too-old").contains("3.4."));
    }
}

fn etcdctl(host: &Host, args: &str) -> String {
    let pair = "--cacert /etc/etcd/tls/ca.crt --cert /etc/etcd/tls/node.crt --key /etc/etcd/tls/node.key";
    let script = format!("etcdctl --endpoints https://localhost:2379 {pair} {args}");
    run(host, &script).text().to_owned()
}

fn clock(host: &Host) -> String {
    run(host, "date -u +%FT%TZ").text().to_owned()
}

/// Waits until this host's clock shows a later second than this; returns it.
fn later(host: &Host, than: &str) -> String {
    let mut now = String::new();
    wait_until("the next second", SOON, || {
        now = clock(host);
        Ok(now.as_str() > than)
    })
    .unwrap();
    now
}

/// Each command of the section for 2 a.m., on one node of a healthy cluster.
fn at_night(n1: &Host) {
    let section = README.split("\n## At 2 a.m.\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let code = section.split('`').skip(1).step_by(2);
    let mut left: BTreeSet<&str> = code
        .filter(|text| text.starts_with("etcd-agent ") || text.starts_with("systemctl "))
        .collect();
    let mut night = |command: &str, given: &str, asks: bool| {
        assert!(left.remove(command), "the README does not say {command:?}");
        type_in(n1, given, asks);
    };
    wait_until("the first backup", SOON, || {
        Ok(!listed(n1, &["backup", "list"], "backups").is_empty())
    })
    .unwrap();
    // Unknown is never a yes: the agents may not have looked at everything yet.
    ok_to_stop(n1, &[]);
    night("etcd-agent ok-to-stop", "etcd-agent ok-to-stop", false);
    for command in LOOKS {
        night(command, command, false);
    }
    was_built(n1);

    etcdctl(n1, "put hello world");
    // A change has the time at which the agent receives it.
    let read: Value = serde_json::from_str(&etcdctl(n1, "get hello -w json")).unwrap();
    wait_until("the change to be stored", SOON, || {
        let backups = listed(n1, &["backup", "list"], "backups");
        let covers = |backup: &Value| backup["covered"].as_u64() >= read["header"]["revision"].as_u64();
        Ok(backups.iter().any(covers))
    })
    .unwrap();
    let at = later(n1, &clock(n1));
    later(n1, &at);
    etcdctl(n1, "del hello");
    run(n1, "etcd-agent backup now");
    let command = format!("etcd-agent restore latest --time {TIME}");
    night(&command, &command.replace(TIME, &at), true);
    assert_eq!(etcdctl(n1, "get hello --print-value-only"), "world");
    run(n1, "etcd-agent backup now");
    night("etcd-agent restore latest", "etcd-agent restore latest", true);
    assert_eq!(etcdctl(n1, "get hello --print-value-only"), "world");

    night("systemctl stop etcd-agent", "systemctl stop etcd-agent", false);
    assert_eq!(n1.unit_property("etcd", "ActiveState").unwrap(), "active");
    assert!(left.is_empty(), "not run: {left:?}");
}

#[test]
fn every_command_of_the_readme_works_as_it_is_written() {
    let builder = Lab::builder("readme").hosts(4).etcd_of_debian().one_etcd();
    let debian_12 = |builder: Builder, host| builder.suite_of(host, Suite::Bookworm);
    let lab = (1..=3).fold(builder, debian_12).boot().unwrap();
    lab.s3().start().unwrap();
    lab.each(|host| {
        host.systemctl(&["start", "etcd"])?.ok()?;
        host.push(&deb(), "/root/etcd-agent_0.1.0_amd64.deb")
    })
    .unwrap();
    one_node(lab.host(4).unwrap());
    three_nodes(&lab, &lab.hosts()[..3]);
    at_night(lab.host(1).unwrap());
    lab.passed();
}
