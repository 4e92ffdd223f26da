//! Tests of the lab itself, on which every scenario builds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use etcd_agent_lab::{Authority, Cmd, ETCD_DEFAULT, Host, Lab, OUTSIDE, PATIENCE, Shape, Suite, wait_until};

/// Forms three members by hand with Debian's own unit and environment file.
fn form_by_hand(lab: &Lab) -> Result<()> {
    lab.prepare_by_hand("")?;
    lab.start_by_hand()
}

/// One answer of three is enough: a busy machine may be slow with one.
fn hears(from: &Host, to: &Host) -> bool {
    let ping = from.exec(&["ping", "-c3", "-i0.2", "-W2", to.name()]).unwrap();
    ping.success()
}

/// A write through this host. An election may delay it.
fn put(host: &Host, key: &str, value: &str) {
    wait_until(&format!("a write of {key} on {}", host.name()), PATIENCE, || {
        Ok(host.sh(&format!("etcdctl put {key} {value}"))?.success())
    })
    .unwrap();
}

#[test]
fn three_hosts_form_a_cluster_lose_a_link_and_a_host() {
    let start = Instant::now();
    let lab = Lab::builder("selftest").hosts(3).plain().boot().unwrap();
    eprintln!("three hosts booted in {:?}", start.elapsed());
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());

    // Each is a host of its own.
    for host in lab.hosts() {
        assert_eq!(host.sh("hostname").unwrap().text(), host.name());
        assert_eq!(host.sh("cat /proc/1/comm").unwrap().text(), "systemd");
        assert!(
            host.sh("env")
                .unwrap()
                .stdout
                .lines()
                .all(|line| !line.starts_with("AWS_"))
        );
        let version = host.sh("etcd --version").unwrap().ok().unwrap();
        assert!(version.stdout.contains(ETCD_DEFAULT), "{}", version.stdout);
        assert!(host.sh("ls /opt").unwrap().stdout.contains("etcd-v3.7.3"));
        assert!(!host.disk().join("var/lib/etcd/default").exists());
    }
    assert_ne!(
        n1.read_file("/etc/machine-id").unwrap(),
        n2.read_file("/etc/machine-id").unwrap()
    );

    form_by_hand(&lab).unwrap();
    put(n1, "before", "cut");
    let members = n2.sh("etcdctl member list").unwrap().ok().unwrap();
    assert_eq!(members.stdout.lines().count(), 3, "{}", members.stdout);

    // A stop on one host does not affect another: each has a control group of its own.
    n3.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    assert_eq!(n1.unit_state("etcd").unwrap().active, "active");
    n3.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();

    // A cut link has no connection, and works again after the cut is healed.
    assert!(hears(n1, n3));
    n3.cut().unwrap();
    assert!(!hears(n1, n3) && hears(n1, n2));
    put(n1, "during", "cut");
    assert!(
        !n3.sh("etcdctl get during --command-timeout=2s")
            .unwrap()
            .success()
    );
    n3.heal().unwrap();
    wait_until("n3 to have caught up", PATIENCE, || {
        Ok(n3
            .sh("etcdctl get during --print-value-only --command-timeout=2s")?
            .text()
            == "cut")
    })
    .unwrap();

    // A partition is between hosts only; a one-way block is one-way.
    lab.net().partition(&[&["n1"], &["n2", "n3"]]).unwrap();
    assert!(!hears(n1, n2) && hears(n2, n3));
    lab.heal_all().unwrap();
    assert!(hears(n1, n2));
    lab.net().block("n1", "n2").unwrap();
    assert!(!hears(n1, n2) && !hears(n2, n1) && hears(n1, n3));
    lab.heal_all().unwrap();

    // Power loss: all processes end at once, the disk is kept, the journal is readable.
    let before = n2.main_pid("etcd").unwrap().unwrap();
    n2.kill().unwrap();
    assert!(!n2.is_on());
    // The leader may have been on n2: a request to it then times out.
    put(n1, "without", "n2");
    assert!(!hears(n1, n2), "a host without power answers nothing");
    assert!(
        n2.journal("etcd").unwrap().contains("etcd"),
        "the journal of a killed host"
    );
    n2.boot().unwrap();
    n2.wait_unit("etcd", "active", PATIENCE).unwrap();
    assert_eq!(
        n2.sh("etcdctl get without --print-value-only").unwrap().text(),
        "n2"
    );

    // A killed process is restarted or not, as the unit states (on-abnormal: after a signal).
    n2.kill_process("etcd", "KILL").unwrap();
    wait_until("etcd to be restarted", PATIENCE, || {
        Ok(
            n2.main_pid("etcd")?.is_some_and(|pid| pid != before)
                && n2.unit_state("etcd")?.active == "active",
        )
    })
    .unwrap();

    // An orderly reboot.
    n1.reboot().unwrap();
    n1.wait_unit("etcd", "active", PATIENCE).unwrap();
    n1.wipe("/var/lib/etcd/default").unwrap();
    assert!(!n1.sh("test -e /var/lib/etcd/default").unwrap().success());

    let (id, dir) = (lab.id().to_owned(), lab.dir());
    let record = fs::read_to_string(dir.join("lab.json")).unwrap();
    lab.passed();
    assert_nothing_left(&id, &dir, &record);
}

#[test]
fn bookworm_has_systemd_252_and_the_same_etcd() {
    let lab = Lab::builder("selftest-bookworm")
        .suite(Suite::Bookworm)
        .etcd("3.6.16")
        .boot()
        .unwrap();
    let host = lab.host(1).unwrap();
    assert!(
        host.sh("systemctl --version")
            .unwrap()
            .stdout
            .starts_with("systemd 252")
    );
    assert!(host.sh("etcd --version").unwrap().stdout.contains("3.6.16"));
    host.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    host.sh("etcdctl put a b").unwrap().ok().unwrap();
    lab.passed();
}

#[test]
fn polkit_lets_an_unprivileged_user_restart_one_unit() {
    let lab = Lab::builder("selftest-polkit").boot().unwrap();
    let host = lab.host(1).unwrap();
    host.write_file(
        "/etc/polkit-1/rules.d/50-lab.rules",
        "polkit.addRule(function(action, subject) {\n\
           if (action.id == 'org.freedesktop.systemd1.manage-units' && subject.user == 'nobody' &&\n\
               action.lookup('unit') == 'etcd.service') return polkit.Result.YES;\n\
         });\n",
        "0644",
        "root:root",
    )
    .unwrap();
    let as_nobody = |unit: &str| {
        host.exec(&[
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
            "systemctl",
            "restart",
            unit,
        ])
        .unwrap()
    };
    as_nobody("etcd.service").ok().unwrap();
    assert!(host.main_pid("etcd").unwrap().is_some());
    assert!(!as_nobody("systemd-journald.service").success());
    lab.passed();
}

#[test]
fn writes_go_on_when_the_leader_dies_and_s3_keeps_what_it_took() {
    let lab = Lab::builder("selftest-tls").hosts(3).boot().unwrap();
    form_by_hand(&lab).unwrap();
    lab.wait_healthy(3, PATIENCE).unwrap();
    let load = lab.start_load("load/").unwrap();
    load.wait_for(50, PATIENCE).unwrap();
    let leader = lab.raft_leader().unwrap();
    leader.kill().unwrap();
    load.wait_for(50, PATIENCE).unwrap();
    leader.boot().unwrap();
    lab.wait_healthy(3, PATIENCE).unwrap();
    let written = load.stop().unwrap();
    eprintln!(
        "{} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
    let mut last = Duration::ZERO;
    let gaps = written.times.iter().map(|at| {
        let gap = at.saturating_sub(last);
        last = *at;
        gap
    });
    assert_eq!(gaps.max(), Some(written.longest_gap));
    written.verify_all(&lab).unwrap();
    // A lost write is reported as lost.
    lab.etcdctl(&[leader], &["del", "load/00000007"])
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(written.missing(&lab).unwrap(), [7]);
    let error = written.verify_all(&lab).unwrap_err().to_string();
    assert!(error.contains("1 of"), "{error}");
    // Certificates of another authority are refused.
    let stranger = Authority::open(&lab.dir().join("stranger"), "stranger").unwrap();
    let n1 = lab.host(1).unwrap();
    stranger
        .install(n1, &stranger.issue_for(n1).unwrap(), "/root/stranger", "root")
        .unwrap();
    let curl = |dir: &str| {
        n1.sh(&format!(
            "curl -sS --cacert /etc/etcd/tls/ca.crt --cert {dir}/node.crt --key {dir}/node.key https://n2:2379/version"
        ))
        .unwrap()
    };
    curl("/etc/etcd/tls").ok().unwrap();
    assert!(!curl("/root/stranger").success());

    let s3 = lab.s3();
    s3.start().unwrap();
    let get = s3.curl("lab/one");
    n1.sh(&format!("echo content > /root/one; {get} -T /root/one"))
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(s3.keys().unwrap(), ["lab/one"]);
    s3.stop().unwrap();
    assert!(!n1.sh(&get).unwrap().success());
    s3.start().unwrap();
    assert_eq!(n1.sh(&get).unwrap().text(), "content");
    // One host is cut off only from the outside.
    lab.net().block("n1", OUTSIDE).unwrap();
    assert!(!n1.sh(&format!("{get} --max-time 2")).unwrap().success());
    lab.passed();
}

#[test]
fn s3_over_https_and_a_bad_cable() {
    let lab = Lab::builder("selftest-s3").hosts(2).s3_tls().boot().unwrap();
    lab.s3().start().unwrap();
    let (n1, n2) = (lab.host(1).unwrap(), lab.host(2).unwrap());
    n1.write_file("/root/ca.crt", lab.ca().unwrap().cert(), "0644", "root:root")
        .unwrap();
    let answer = n1
        .sh("curl -sS -o /dev/null -w '%{http_code}' --cacert /root/ca.crt https://s3:7070/")
        .unwrap();
    assert_eq!(answer.ok().unwrap().text(), "403");
    n1.shape(Shape {
        loss_percent: 30,
        rate_kbit: 1000,
        ..Shape::default()
    })
    .unwrap();
    let ping = n1.sh("ping -q -c 60 -i 0.02 -W 1 n2 || true").unwrap().stdout;
    assert!(
        !ping.contains(" 0% packet loss") && !ping.contains("100% packet loss"),
        "{ping}"
    );
    lab.heal_all().unwrap();
    assert!(hears(n1, n2));
    lab.passed();
}

#[test]
fn a_dead_owner_is_swept_and_a_signal_cleans_up() {
    for signal in ["KILL", "TERM"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lab"))
            .arg("hold")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut id = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut id)
            .unwrap();
        let id = id.trim();
        let dir = Path::new("/var/tmp/etcd-agent-lab").join(id);
        let record = fs::read_to_string(dir.join("lab.json")).unwrap();
        Cmd::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .ok()
            .unwrap();
        child.wait().unwrap();
        if signal == "KILL" {
            // Another test's lab may remove it first.
            etcd_agent_lab::sweep().unwrap();
        }
        assert_nothing_left(id, &dir, &record);
    }
}

/// Nothing is left of the lab with this record. Another lab may have its id already, as tests run
/// concurrently.
fn assert_nothing_left(id: &str, dir: &Path, record: &str) {
    wait_until(&format!("{id} to be removed"), PATIENCE, || {
        if fs::read_to_string(dir.join("lab.json")).is_ok_and(|now| now != record) {
            return Ok(true);
        }
        let left = leftovers(id, dir);
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(true)
    })
    .unwrap();
}

fn leftovers(id: &str, dir: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    if mounts.contains(&format!("etcd-agent-lab/{id}/")) {
        left.push("mounts".to_owned());
    }
    for place in [
        "/run/netns",
        "/run/systemd/nspawn/propagate",
        "/run/systemd/nspawn/unix-export",
    ] {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with(&format!("{id}-")) {
                left.push(format!("{place}/{name}"));
            }
        }
    }
    let groups = [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/systemd",
    ];
    let groups = groups.map(|root| Path::new(root).join("etcd-agent-lab").join(id));
    let paths = groups.iter().map(AsRef::as_ref).chain([dir]);
    left.extend(
        paths
            .filter(|path| path.exists())
            .map(|path| path.display().to_string()),
    );
    left
}

#[test]
fn packages_install_and_sandboxes_hold_as_on_a_real_host() {
    let lab = Lab::builder("selftest-deb").hosts(2).boot().unwrap();
    let build = lab.dir().join("probe");
    fs::create_dir_all(build.join("DEBIAN")).unwrap();
    let control = "Package: lab-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: Lab <lab@localhost>\n\
         Depends: adduser, polkitd | policykit-1, systemd (>= 252), etcd-server, libc6, libgcc-s1\nDescription: probe\n";
    fs::write(build.join("DEBIAN/control"), control).unwrap();
    let deb = lab.dir().join("lab-probe_1.0_all.deb");
    Cmd::new("dpkg-deb").arg("-b").arg(&build).arg(&deb).ok().unwrap();
    lab.install(&deb).unwrap();
    lab.install(&deb).unwrap();
    let host = lab.host(2).unwrap();
    assert_eq!(
        host.sh("dpkg-query -W -f='${Status}' lab-probe").unwrap().text(),
        "install ok installed"
    );
    // Unsatisfiable dependencies are an error with apt's text.
    fs::write(
        build.join("DEBIAN/control"),
        control.replace("adduser", "no-such-package"),
    )
    .unwrap();
    Cmd::new("dpkg-deb").arg("-b").arg(&build).arg(&deb).ok().unwrap();
    let error = format!("{:#}", host.install_deb(&deb).unwrap_err());
    assert!(error.contains("no-such-package"), "{error}");

    let unit = "[Service]\nType=oneshot\nDynamicUser=yes\nPrivateNetwork=yes\nProtectSystem=strict\nProtectProc=invisible\n\
         PrivateUsers=yes\nPrivateDevices=yes\nMemoryDenyWriteExecute=yes\nSystemCallFilter=@system-service\n\
         LoadCredential=name:/etc/hostname\nStateDirectory=probe\nCapabilityBoundingSet=\n\
         ExecStart=/bin/sh -ec 'cat $CREDENTIALS_DIRECTORY/name; ! touch /etc/x; ! test -e /sys/class/net/eth0; echo IF $(ip -o link | wc -l)'\n";
    host.write_file("/etc/systemd/system/probe.service", unit, "0644", "root:root")
        .unwrap();
    host.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    let started = host.systemctl(&["start", "probe"]).unwrap();
    let journal = host.journal("probe").unwrap();
    assert!(started.success(), "{journal}");
    assert!(
        journal.contains("IF 1") && journal.contains(": n2"),
        "no network of its own: {journal}"
    );
    lab.passed();
}
