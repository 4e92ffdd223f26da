//! The authority of all certificates is replaced while clients write: both are trusted, all certificates are issued
//! again, the old authority is dropped. etcd reads its authorities only when it starts, so the agents restart it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{SOON, etcd_pids, formed, wait_logged};
use etcd_agent_lab::{Authority, Cmd, Host, Lab, wait_until};

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

#[test]
fn an_authority_is_replaced_under_writes_by_changes_of_files_alone() {
    let lab = formed("authorities", 3);
    let old = lab.ca().unwrap();
    // It has the name of the old one, as after a renewal with another key.
    let new = Authority::open(&lab.dir().join("new-ca"), "lab CA").unwrap();
    let load = lab.start_load("a").unwrap();
    load.wait_for(50, SOON).unwrap();

    let before = etcd_pids(lab.hosts());
    for host in lab.hosts() {
        trust(host, &format!("{}{}", old.cert(), new.cert()));
    }
    wait_restarted(&lab, &before);
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap();

    let before = etcd_pids(lab.hosts());
    for host in lab.hosts() {
        for (dir, group) in DIRS {
            new.install(host, &new.issue_for(host).unwrap(), dir, group)
                .unwrap();
        }
        trust(host, &format!("{}{}", old.cert(), new.cert()));
    }
    clients_use(&lab, &new);
    // A certificate is read for each connection.
    for host in lab.hosts() {
        assert!(
            serves(&lab, host, &new),
            "{} with the new certificate",
            host.name()
        );
    }
    assert_eq!(etcd_pids(lab.hosts()), before, "no restart for that");

    let load = lab.start_load("b").unwrap();
    load.wait_for(50, SOON).unwrap();
    for host in lab.hosts() {
        trust(host, new.cert());
    }
    wait_restarted(&lab, &before);
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap();
    for host in lab.hosts() {
        assert!(
            !serves(&lab, host, &old),
            "{} trusts the old authority",
            host.name()
        );
        assert!(serves(&lab, host, &new), "{}", host.name());
    }

    // An authority that has not issued the certificates would cut the member off.
    let before = etcd_pids(lab.hosts());
    let n1 = lab.host(1).unwrap();
    n1.write_file("/etc/etcd/tls/ca.crt", old.cert().as_bytes(), "0644", "root:etcd")
        .unwrap();
    wait_logged(n1, "etcd is not restarted because of new authorities");
    assert_eq!(etcd_pids(lab.hosts()), before);
    lab.passed();
}
