//! Hosts that reboot one at a time under the reboot lock. Called by a test that has three hosts.

use crate::common::{SOON, agent};
use crate::stops::refuses;
use etcd_agent_lab::{Host, Lab, wait_until};

const CONFIG: &str = "/etc/etcd-agent/config.d/60-reboot-lock.toml";
const CLIENT: &str = r#"{"client_params":{"id":"c988d2509fdf5cdcbed39037c56406fb","group":"default"}}"#;

/// The header of each FleetLock request.
const PROTOCOL: &str = "fleet-lock-protocol: true";

/// The lock outlasts the reboot of its holder, holds others back, and ends by a release or by an order.
pub(crate) fn hosts_reboot_one_at_a_time(lab: &Lab) {
    let [n1, n2, n3] = [1, 2, 3].map(|number| lab.host(number).unwrap());
    agent(n1, &["reboot-lock", "acquire", "--timeout", "1m"])
        .ok()
        .unwrap();
    shows(n2, "held by n1 for an operator");
    gets_no_lock(n2, "n1 holds it");
    refuses(n2, "n3", "reboot-lock-held");

    n1.reboot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    shows(n1, "held by n1 for an operator");
    shows(n3, "held by n1 for an operator");
    agent(n1, &["reboot-lock", "release"]).ok().unwrap();
    shows_none(n1);
    shows_none(n2);

    a_fleet_lock_client_reboots(lab, n1, n2);
    of_three_at_once_one_gets_it(lab);
}

/// Waits until the host is refused the lock for this reason. It never gets it.
pub(crate) fn gets_no_lock(host: &Host, why: &str) {
    wait_until(&format!("{} to be refused the lock", host.name()), SOON, || {
        let refused = agent(host, &["reboot-lock", "acquire", "--timeout", "3s"]);
        assert_eq!(refused.code, 4, "{}{}", refused.stdout, refused.stderr);
        anyhow::ensure!(refused.stderr.contains(why), "{}", refused.stderr);
        Ok(true)
    })
    .unwrap();
}

/// n2 takes the lock for a client, and never comes back by itself: an operator releases its lock on n1.
fn a_fleet_lock_client_reboots(lab: &Lab, n1: &Host, n2: &Host) {
    let text = "[reboot_lock]\nlisten = \"127.0.0.1:2382\"\n";
    n2.write_file(CONFIG, text, "0644", "root:root").unwrap();
    agent(n2, &["reload"]).ok().unwrap();
    bad_requests_take_no_lock(lab, n2);
    gets_the_lock(n2);
    assert_eq!(post(n2, "pre-reboot"), "200", "it holds the lock already");
    shows(
        n1,
        "held by n2 for the FleetLock client c988d2509fdf5cdcbed39037c56406fb",
    );
    gets_no_lock(n2, "for the FleetLock client");
    n2.kill().unwrap();
    let released = agent(n1, &["reboot-lock", "release", "n2"]).ok().unwrap();
    assert!(
        released.stdout.contains("of n2 is released"),
        "{}",
        released.stdout
    );
    shows_none(n1);
    n2.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    shows_none(n2);
    gets_the_lock(n2);
    assert_eq!(post(n2, "steady-state"), "200");
    assert_eq!(post(n2, "steady-state"), "200", "it holds nothing");
    shows_none(n1);
}

/// Each is refused although the lock is free, and nothing holds it afterwards.
fn bad_requests_take_no_lock(lab: &Lab, host: &Host) {
    let of_another_group = CLIENT.replace("default", "db");
    let table = [
        (
            "an unknown group",
            Some(PROTOCOL),
            of_another_group.as_str(),
            r#"{"kind":"unknown_group","#,
        ),
        ("no JSON", Some(PROTOCOL), "x", r#"{"kind":"bad_request","#),
        ("no client", Some(PROTOCOL), "{}", r#"{"kind":"bad_request","#),
        ("no header", None, CLIENT, r#"{"kind":"bad_request","#),
        (
            "another value of the header",
            Some("fleet-lock-protocol: 1"),
            CLIENT,
            r#"{"kind":"bad_request","#,
        ),
    ];
    for (what, header, body, expected) in table {
        let (code, answer) = send(host, "pre-reboot", header, body);
        assert_eq!(code, "400", "{what}: {answer}");
        assert!(answer.starts_with(expected), "{what}: {answer}");
    }
    for host in lab.hosts() {
        shows_none(host);
    }
}

fn of_three_at_once_one_gets_it(lab: &Lab) {
    for host in lab.hosts() {
        shows_none(host);
    }
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let asked: Vec<_> = lab
            .hosts()
            .iter()
            .map(|host| scope.spawn(|| agent(host, &["reboot-lock", "acquire", "--timeout", "30s"]).code))
            .collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let holders = codes.iter().filter(|code| **code == 0).count();
    let refused = codes.iter().filter(|code| **code == 4).count();
    assert_eq!((holders, refused), (1, 2), "{codes:?}");
    for host in lab.hosts() {
        agent(host, &["reboot-lock", "release"]).ok().unwrap();
    }
}

/// The client asks again after a refusal.
fn gets_the_lock(host: &Host) {
    wait_until("the lock", SOON, || Ok(post(host, "pre-reboot") == "200")).unwrap();
}

/// The HTTP status of a FleetLock request on this host.
fn post(host: &Host, path: &str) -> String {
    send(host, path, Some(PROTOCOL), CLIENT).0
}

/// The HTTP status and the body of the answer to a request with this header and this body.
fn send(host: &Host, path: &str, header: Option<&str>, body: &str) -> (String, String) {
    let url = format!("http://127.0.0.1:2382/v1/{path}");
    let mut curl = vec![
        "curl",
        "--silent",
        "--write-out",
        "\n%{http_code}",
        "--max-time",
        "30",
        "--retry",
        "5",
        "--retry-connrefused",
        "--data",
        body,
    ];
    if let Some(header) = header {
        curl.extend(["--header", header]);
    }
    curl.push(&url);
    let said = host.exec(&curl).unwrap().ok().unwrap().stdout;
    let (answer, code) = said.rsplit_once('\n').unwrap();
    (code.to_owned(), answer.to_owned())
}

fn shows(host: &Host, holder: &str) {
    wait_until(&format!("{} to show the lock", host.name()), SOON, || {
        let status = agent(host, &["status"]).stdout;
        anyhow::ensure!(status.contains(holder), "{status}");
        Ok(true)
    })
    .unwrap();
}

fn shows_none(host: &Host) {
    wait_until(&format!("{} to show no lock", host.name()), SOON, || {
        let status = agent(host, &["status"]).stdout;
        anyhow::ensure!(!status.contains("Reboot lock"), "{status}");
        Ok(true)
    })
    .unwrap();
}
