//! Installing, upgrading, crashing and removing the agent never touches etcd: S42. Also checks the agent's
//! units.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, assert_value, deb, etcd_environ, etcd_pid, formed, holds_for, member_ids, put,
    wait_status,
};
use etcd_agent_lab::{Cmd, Host, Lab, Suite, wait_until};

/// The same package under the next version.
pub(crate) fn next_version(deb: &Path, dir: &Path) -> PathBuf {
    let (tree, next) = (dir.join("next"), dir.join("etcd-agent_next.deb"));
    Cmd::new("dpkg-deb").arg("-R").arg(deb).arg(&tree).ok().unwrap();
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    let raised = text.lines().map(|line| match line.strip_prefix("Version: ") {
        Some(version) => format!("Version: {version}+next1\n"),
        None => format!("{line}\n"),
    });
    fs::write(&control, raised.collect::<String>()).unwrap();
    Cmd::new("dpkg-deb")
        .args(["-Znone", "-b"])
        .arg(&tree)
        .arg(&next)
        .ok()
        .unwrap();
    next
}

pub(crate) fn version(host: &Host) -> String {
    host.sh("dpkg-query -W -f '${Version}' etcd-agent")
        .unwrap()
        .ok()
        .unwrap()
        .text()
        .to_owned()
}

/// Returns what it printed.
fn apt(host: &Host, verb: &str) -> String {
    let argv = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        verb,
        "-y",
        "-q",
        "etcd-agent",
    ];
    let output = host.exec(&argv).unwrap().ok().unwrap();
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn s42_install_and_purge_leave_a_foreign_etcd_alone() {
    let lab = Lab::builder("s42-foreign").plain().boot().unwrap();
    let n1 = lab.host(1).unwrap();
    // Its data is elsewhere, so `init` must not take it over: it would not find the data at the next start.
    n1.write_file(
        "/etc/systemd/system/etcd.service.d/theirs.conf",
        b"[Service]\nEnvironment=\nExecStart=\nExecStart=/usr/bin/etcd --name=n1 --data-dir=/var/lib/etcd/theirs\n",
        "0644",
        "root:root",
    )
    .unwrap();
    n1.systemctl(&["enable", "--now", "etcd"]).unwrap().ok().unwrap();
    n1.sh("etcdctl put hello world").unwrap().ok().unwrap();
    let pid = etcd_pid(n1);
    let unit = n1.systemctl(&["cat", "etcd"]).unwrap().stdout;
    let untouched = |when: &str| {
        assert_eq!(etcd_pid(n1), pid, "{when}");
        assert_eq!(n1.systemctl(&["cat", "etcd"]).unwrap().stdout, unit, "{when}");
        assert_eq!(
            n1.sh("etcdctl get hello --print-value-only").unwrap().text(),
            "world",
            "{when}"
        );
        assert_eq!(
            n1.unit_property("etcd", "NeedDaemonReload").unwrap(),
            "no",
            "{when}"
        );
    };

    n1.write_file(CONFIG, BROKEN, "0644", "root:root").unwrap();
    n1.install_deb(&deb()).unwrap();
    the_agent_has_stopped_with_the_reason(n1);
    untouched("after the installation over a broken configuration");
    n1.sh(&format!("rm {CONFIG} && systemctl start etcd-agent"))
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(n1.unit_property("etcd-agent", "ActiveState").unwrap(), "active");
    untouched("without a configuration");
    let init = agent(n1, &["init"]);
    assert_eq!(
        init.code, 4,
        "init refuses an etcd with its data elsewhere: {}",
        init.stderr
    );
    untouched("after init");
    apt(n1, "purge");
    untouched("after the purge");
    n1.reboot().unwrap();
    n1.wait_unit("etcd", "active", SOON).unwrap();
    assert_eq!(
        n1.sh("etcdctl get hello --print-value-only").unwrap().text(),
        "world"
    );
    taken_over_where_its_file_says(n1);
    lab.passed();
}

/// A configuration with an error in its second line.
pub(crate) const BROKEN: &str = "[cluster]\nnmae = \"prod\"\n";
pub(crate) const CONFIG: &str = "/etc/etcd-agent/config.toml";

/// systemd does not start the agent again and again with a configuration that it has refused.
pub(crate) fn the_agent_has_stopped_with_the_reason(host: &Host) {
    let is_failed = || {
        let unit = |property: &str| host.unit_property("etcd-agent", property).unwrap();
        let state = (unit("ActiveState"), unit("NRestarts"), unit("ExecMainStatus"));
        state == ("failed".to_owned(), "0".to_owned(), "2".to_owned())
    };
    holds_for("the agent to stay stopped", Duration::from_secs(3), is_failed);
    let status = host
        .systemctl(&["status", "--no-pager", "-l", "etcd-agent"])
        .unwrap();
    let journal = host.journalctl(&["-u", "etcd-agent"]).unwrap();
    for (what, text) in [("systemctl status", status.stdout), ("the journal", journal)] {
        let says = |part: &str| assert!(text.contains(part), "{what} lacks {part}: {text}");
        says(".toml:2: cluster.nmae: no such key; did you mean \"name\"?");
        says("`systemctl start etcd-agent`");
    }
    assert_eq!(agent(host, &["status"]).code, 3);
}

/// After this upgrade the agent refuses its configuration. etcd runs on, and restarts. Returns its PID.
pub(crate) fn an_upgrade_refuses_the_configuration(n1: &Host, upgrade: impl FnOnce()) -> u32 {
    let (fragment, pid) = ("/etc/etcd-agent/config.d/50-broken.toml", etcd_pid(n1));
    n1.write_file(fragment, BROKEN, "0644", "root:root").unwrap();
    upgrade();
    the_agent_has_stopped_with_the_reason(n1);
    assert_eq!(etcd_pid(n1), pid, "after an upgrade over a broken configuration");
    n1.systemctl(&["restart", "etcd"]).unwrap().ok().unwrap();
    let pid = etcd_pid(n1);
    n1.write_file(fragment, "", "0644", "root:root").unwrap();
    n1.systemctl(&["start", "etcd-agent"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "after the configuration was corrected");
    pid
}

/// The same data, with its directory in the file that the unit names: `init` finds it there.
fn taken_over_where_its_file_says(n1: &Host) {
    n1.sh(
        "rm /etc/systemd/system/etcd.service.d/theirs.conf && systemctl daemon-reload
        echo ETCD_DATA_DIR=/var/lib/etcd/theirs >/etc/default/etcd && systemctl restart etcd",
    )
    .unwrap()
    .ok()
    .unwrap();
    let pid = etcd_pid(n1);
    n1.install_deb(&deb()).unwrap();
    agent(n1, &["init"]).ok().unwrap();
    assert_eq!(etcd_pid(n1), pid, "taken over without a restart");
    // From now on the agent's own file says it, and nobody else's moves etcd away from its data.
    n1.sh("rm /etc/default/etcd && systemctl restart etcd-agent etcd")
        .unwrap()
        .ok()
        .unwrap();
    wait_status(n1, 0);
    let value = n1.sh("etcdctl get hello --print-value-only").unwrap();
    assert_eq!(value.ok().unwrap().text(), "world");
    let environ = etcd_environ(n1);
    assert_eq!(
        environ.get("ETCD_DATA_DIR").map(String::as_str),
        Some("/var/lib/etcd/theirs")
    );
}

/// Whether `discard-empty` has changed anything, and what it says.
fn discard(host: &Host, changed: bool, said: &str) {
    let answer = agent(host, &["discard-empty", "-o", "json"]).ok().unwrap();
    let view: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    let message = view["message"].as_str().unwrap_or_default();
    assert!(view["changed"] == changed && message.contains(said), "{view}");
}

/// `discard-empty` refuses, and etcd runs on.
pub(crate) fn keeps(host: &Host, said: &str) {
    let pid = etcd_pid(host);
    let answer = agent(host, &["discard-empty"]);
    assert_eq!(answer.code, 4, "{}", answer.stdout);
    assert!(answer.stderr.contains(said), "{}", answer.stderr);
    assert_eq!(etcd_pid(host), pid, "etcd was stopped");
}

/// The etcd that runs on this empty data is stopped, and the data goes into the archive, once.
pub(crate) fn the_empty_etcd_is_archived(host: &Host, data: &str) {
    discard(host, true, "is moved to /var/lib/etcd/etcd-agent-archive/");
    assert_eq!(host.unit_property("etcd", "ActiveState").unwrap(), "inactive");
    let owner = format!("test ! -e {data} && stat -c %U /var/lib/etcd/etcd-agent-archive");
    assert_eq!(host.sh(&owner).unwrap().ok().unwrap().text(), "etcd");
    discard(host, false, "holds no data");
}

#[test]
fn an_empty_etcd_is_discarded_and_no_other() {
    let lab = Lab::builder("discard").plain().boot().unwrap();
    let n1 = lab.host(1).unwrap();
    n1.install_deb(&deb()).unwrap();
    let start = || n1.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    discard(n1, false, "holds no data");
    start();
    the_empty_etcd_is_archived(n1, DATA);

    let (defaults, log) = ("/etc/default/etcd", "/var/lib/etcd/log");
    n1.write_file(defaults, format!("ETCD_WAL_DIR={log}\n"), "0644", "root:root")
        .unwrap();
    start();
    discard(n1, true, "is moved to /var/lib/etcd/etcd-agent-archive/");
    let together = format!("test ! -e {log} && stat -c %U /var/lib/etcd/etcd-agent-archive/*.wal");
    assert_eq!(n1.sh(&together).unwrap().ok().unwrap().text(), "etcd");
    n1.write_file(defaults, "\n", "0644", "root:root").unwrap();

    start();
    n1.sh("etcdctl put a 1 && etcdctl del a").unwrap().ok().unwrap();
    keeps(n1, "keys were written (revision 3)");
    n1.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    let down = agent(n1, &["discard-empty"]);
    assert!(
        down.code == 4 && down.stderr.contains("does not answer"),
        "{}",
        down.stderr
    );
    n1.sh(&format!("rm -rf {DATA}")).unwrap().ok().unwrap();
    start();
    n1.sh("etcdctl user add root:secret").unwrap().ok().unwrap();
    keeps(n1, "users or roles");

    n1.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    n1.sh(&format!("rm -rf {DATA}")).unwrap().ok().unwrap();
    // The package's own test, as Debian's autopkgtest runs it, on an empty etcd. It makes the host a cluster.
    start();
    n1.write_file(
        "/root/smoke",
        include_bytes!("../../../../debian/tests/smoke"),
        "0755",
        "root:root",
    )
    .unwrap();
    n1.exec(&["/root/smoke"]).unwrap().ok().unwrap();
    discard(n1, false, "which the agent manages");
    lab.passed();
}

#[test]
fn s42_package() {
    let lab = formed("s42", 1);
    let n1 = lab.host(1).unwrap();
    wait_status(n1, 0);
    // Debian's package does this when it is installed on a real host.
    n1.systemctl(&["enable", "etcd"]).unwrap().ok().unwrap();
    put(&lab, "hello", "world");
    let pid = etcd_pid(n1);
    let members = member_ids(&lab, n1).unwrap();
    assert_eq!(n1.unit_property("etcd", "TimeoutStopUSec").unwrap(), "30s");

    let old = n1.main_pid("etcd-agent").unwrap();
    n1.kill_process("etcd-agent", "KILL").unwrap();
    wait_until("the agent to be back", SOON, || {
        let now = n1.main_pid("etcd-agent")?;
        Ok(now.is_some() && now != old)
    })
    .unwrap();
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "after kill -9 of the agent");

    n1.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "after a restart of the agent");

    let before = version(n1);
    n1.install_deb(&next_version(&deb(), &lab.dir())).unwrap();
    assert_eq!(version(n1), format!("{before}+next1"));
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "after an upgrade of the agent");
    let pid = an_upgrade_refuses_the_configuration(n1, || n1.install_deb(&deb()).unwrap());

    apt(n1, "remove");
    assert_eq!(etcd_pid(n1), pid, "after the agent was removed");
    assert_value(&lab, n1, "hello", "world");
    let environ = etcd_environ(n1);
    n1.reboot().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "hello", "world");
    assert_eq!(member_ids(&lab, n1).unwrap(), members, "the same member");
    let mut now = etcd_environ(n1);
    for (key, value) in environ.iter().filter(|(key, _)| key.starts_with("ETCD_")) {
        // It runs on existing data, and the setting has said so since its first start.
        if key != "ETCD_INITIAL_CLUSTER_STATE" {
            assert_eq!(now.remove(key).as_ref(), Some(value), "{key} after the reboot");
        }
    }
    assert_eq!(
        now.get("ETCD_INITIAL_CLUSTER_STATE").map(String::as_str),
        Some("existing")
    );

    let pid = etcd_pid(n1);
    // As `init` writes it; and what an administrator has put next to it.
    n1.sh(
        "echo >/etc/etcd-agent/config.toml; mkdir -p /etc/etcd-agent/tls; echo >/etc/etcd-agent/tls/mine.key",
    )
    .unwrap()
    .ok()
    .unwrap();
    let said = apt(n1, "purge");
    assert!(
        said.contains("kept keys and other files in /etc/etcd-agent"),
        "{said}"
    );
    n1.sh("test ! -e /etc/etcd-agent/config.toml && test -e /etc/etcd-agent/tls/mine.key && test ! -e /var/lib/etcd-agent/state")
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(etcd_pid(n1), pid, "after the purge");
    assert!(
        n1.disk()
            .join(DATA.trim_start_matches('/'))
            .join("member")
            .exists()
    );
    n1.reboot().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "hello", "world");
    lab.passed();
}

fn units(suite: Suite) {
    let lab = Lab::builder("units").suite(suite).boot().unwrap();
    let n1 = lab.host(1).unwrap();
    n1.install_deb(&deb()).unwrap();
    let names = [
        "etcd-agent.service",
        "etcd-agent-apply.service",
        "etcd-agent-data.service",
        "etcd-agent-verify.service",
    ];
    let mut argv = vec!["systemd-analyze", "verify", "--man=no"];
    argv.extend(names);
    let verified = n1.exec(&argv).unwrap().ok().unwrap();
    assert_eq!(
        (verified.text(), verified.stderr.trim()),
        ("", ""),
        "systemd-analyze verify is clean"
    );
    for (unit, most) in names.into_iter().zip([2.0, 4.0, 4.0, 4.0]) {
        let output = n1
            .exec(&["systemd-analyze", "security", "--no-pager", unit])
            .unwrap()
            .ok()
            .unwrap();
        let line = output.stdout.lines().last().unwrap_or_default();
        let exposure = line
            .split(": ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .expect(line);
        eprintln!("{suite}: {unit}: {exposure}");
        assert!(exposure.parse::<f64>().expect(line) <= most, "{line}");
    }
    lab.passed();
}

#[test]
fn units_are_clean_and_confined() {
    units(Suite::Trixie);
}

#[test]
fn units_are_clean_and_confined_on_debian_12() {
    units(Suite::Bookworm);
}
