//! An etcd that a package or a person replaces on all hosts at once: what restarts it is held to one member at
//! a time.

use std::time::Duration;

use crate::common::{SOON, agent, all_run, all_written, deb, etcd_pids};
use crate::down_times::{now, one_at_a_time};
use crate::etcd_upgrades::wait_converted;
use etcd_agent_lab::{Host, Lab};

/// Packs the installed package of etcd again, with the binary of 3.5.35 and that version.
const REPACK: &str = r#"set -e
cd /root && rm -rf package && mkdir -p package/DEBIAN
dpkg -L etcd-server | while read -r path; do
    if [ -f "$path" ]; then cp --parents "$path" package; fi
done
cp /opt/etcd-v3.5.35/etcd package/usr/bin/etcd
for script in conffiles postinst postrm preinst prerm; do
    if [ -f "/var/lib/dpkg/info/etcd-server.$script" ]; then cp "/var/lib/dpkg/info/etcd-server.$script" "package/DEBIAN/$script"; fi
done
dpkg-query -s etcd-server | sed -e '/^Status:/d' -e '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ /d}'     -e 's/^Version: .*/Version: 3.5.35-1/' > package/DEBIAN/control
dpkg-deb -Zgzip -z1 --root-owner-group -b package etcd-server.deb
"#;

/// Packages and binaries of etcd that are replaced on all hosts in the same second, under writes: at most one
/// member is down at any moment.
#[test]
fn s51_a_package_upgraded_on_all_hosts_at_once_takes_one_member_at_a_time() {
    let lab = Lab::builder("packages").hosts(3).etcd_of_debian();
    let lab = lab.package(&deb()).boot().unwrap();
    lab.form().unwrap();
    all_run(&lab, "3.5.16");
    let load = lab.start_load("p").unwrap();
    load.wait_for(100, SOON).unwrap();
    newer_packages_are_installed(&lab);
    a_binary_replaced_on_all_hosts_at_once_is_rolled_out(&lab);
    the_package_is_followed_again_after_another_version(&lab);
    load.wait_for(100, SOON).unwrap();
    all_written(&lab, &load.stop().unwrap());
    lab.passed();
}

fn newer_packages_are_installed(lab: &Lab) {
    lab.each(|host| host.sh(REPACK)?.ok().map(drop)).unwrap();
    let before = etcd_pids(lab.hosts());
    let since = now(lab);
    let install = "DEBIAN_FRONTEND=noninteractive apt-get install --yes /root/etcd-server.deb";
    // The last one waits for the restarts of the others.
    let argv = ["sh", "-ec", install];
    lab.each(|host| host.exec_for(Duration::from_mins(5), &argv)?.ok().map(drop))
        .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    all_run(lab, "3.5.35");
    let after = etcd_pids(lab.hosts());
    assert!(
        after.iter().all(|(node, pid)| before.get(node) != Some(pid)),
        "{before:?} {after:?}"
    );
    each_once(lab, &since);
}

/// The binary of the next minor on all hosts in the same second, and nobody restarts etcd: the agents do. One of them
/// comes later, and knows nothing of the etcd that runs there.
fn a_binary_replaced_on_all_hosts_at_once_is_rolled_out(lab: &Lab) {
    let since = now(lab);
    let late = lab.host(3).unwrap();
    late.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    let replace = "cp /opt/etcd-v3.6.16/etcd /usr/bin/etcd.new && mv /usr/bin/etcd.new /usr/bin/etcd";
    lab.each(|host| host.sh(replace)?.ok().map(drop)).unwrap();
    late.sh("rm /var/lib/etcd-agent/state/etcd-run.json && systemctl start etcd-agent")
        .unwrap()
        .ok()
        .unwrap();
    all_run(lab, "3.6.16");
    lab.wait_healthy(3, SOON).unwrap();
    each_once(lab, &since);
}

/// A version below `/opt` was selected, and the packages have a newer one.
fn the_package_is_followed_again_after_another_version(lab: &Lab) {
    let n1 = lab.host(1).unwrap();
    let order = |args: &[&str]| {
        let argv: Vec<&str> = ["etcd-agent"].iter().chain(args).copied().collect();
        n1.exec_for(Duration::from_mins(5), &argv).unwrap().ok().unwrap()
    };
    wait_converted(lab, "3.6.0");
    order(&["downgrade", "--to", "3.5.35"]);
    all_run(lab, "3.5.35");
    assert_eq!(binaries(lab), ["/opt/etcd-v3.5.35/etcd"; 3]);
    let dry = order(&["upgrade", "--to", "package", "--dry-run"]);
    let said = format!("{}{}", dry.stdout, dry.stderr);
    assert!(said.contains("the binary of etcd.service itself"), "{said}");
    let since = now(lab);
    let done = order(&["upgrade", "--to", "package"]);
    assert!(
        done.stdout
            .contains("the package's etcd runs on every member, and all are healthy"),
        "{}",
        done.stdout
    );
    all_run(lab, "3.6.16");
    assert_eq!(binaries(lab), ["/usr/bin/etcd"; 3]);
    lab.wait_healthy(3, SOON).unwrap();
    each_once(lab, &since);
    let before = etcd_pids(lab.hosts());
    let again = agent(n1, &["upgrade", "--to", "package", "-o", "json"])
        .ok()
        .unwrap();
    let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changed"], false);
    let late = agent(n1, &["upgrade", "--cancel"]);
    assert!(
        late.code == 4 && late.stderr.contains("the upgrade is complete"),
        "{late:?}"
    );
    assert_eq!(etcd_pids(lab.hosts()), before, "nothing was restarted");
}

/// The programs of the etcds that run.
fn binaries(lab: &Lab) -> Vec<String> {
    let exe = "readlink /proc/$(systemctl show -P MainPID etcd)/exe";
    let of = |host: &Host| host.sh(exe).unwrap().ok().unwrap().text().to_owned();
    lab.hosts().iter().map(of).collect()
}

/// Each etcd went down once since then, and no two of them at one moment.
fn each_once(lab: &Lab, since: &str) {
    let times = one_at_a_time(lab, since);
    assert!(
        times.len() == 3 && times.values().all(|count| *count == 1),
        "{times:?}"
    );
}
