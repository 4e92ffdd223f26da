//! Members whose write-ahead log is on a disk of its own (`etcd.wal_dir`).

use std::time::Duration;

use crate::common::{
    SOON, agent, archived, assert_value, backup_now, deb, holds_for, kill_etcd, member_ids, put, wait_reason,
};
use etcd_agent_lab::{Host, Lab, wait_until};

const LOG: &str = "/disk/etcd";
/// The disk. It is also seen at another place, where it stays.
const MOUNT: &str = "mount --bind /mnt/disk /disk";

/// The names in the archive of the log.
fn archived_logs(host: &Host) -> Vec<String> {
    let found = host.sh("ls /disk/etcd-agent-archive").unwrap();
    found.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn c10d_s15_s18_a_log_on_a_disk_of_its_own() {
    let lab = Lab::builder("wal-dir").hosts(3).package(&deb()).boot().unwrap();
    let disk = format!(
        "mkdir -p /mnt/disk /disk /etc/etcd-agent/config.d; mount -t tmpfs disk /mnt/disk
         chown --reference=/var/lib/etcd /mnt/disk
         printf '[etcd]\\nwal_dir = \"{LOG}\"\\n' >/etc/etcd-agent/config.d/50-log.toml\n{MOUNT}"
    );
    lab.each(|host| host.sh(&disk)?.ok().map(drop)).unwrap();
    lab.form().unwrap();
    put(&lab, "kept", "on two disks");
    let (n1, n3) = (lab.host(1).unwrap(), lab.host(3).unwrap());
    let place = format!("ls {LOG}/*.wal && ! ls /var/lib/etcd/default/member/wal");
    lab.each(|host| host.sh(&place)?.ok().map(drop)).unwrap();
    let before = member_ids(&lab, n3).unwrap();

    // A disk that is not there is no lost log.
    agent(n3, &["pause"]).ok().unwrap();
    wait_reason(n3, "paused");
    n3.sh("umount --lazy /disk").unwrap().ok().unwrap();
    kill_etcd(n3);
    agent(n3, &["resume"]).ok().unwrap();
    let text = wait_reason(n3, "data-unknown");
    assert!(text.contains(LOG) && text.contains("tmpfs"), "{text}");
    holds_for("it is a member", Duration::from_secs(5), || {
        member_ids(&lab, n1).unwrap() == before
    });
    n3.sh(MOUNT).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(member_ids(&lab, n3).unwrap(), before, "the same member");

    // A log that is gone from its disk is lost: the data without it is of no use.
    n3.sh(&format!("rm -r {LOG}")).unwrap().ok().unwrap();
    kill_etcd(n3);
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, n1)?;
        let id = now.get(n3.name());
        Ok(now.len() == 3 && id.is_some() && id != before.1.get(n3.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n3, "kept", "on two disks");
    let alone = archived(n3);
    assert_eq!((alone.len(), archived_logs(n3)), (1, Vec::new()), "{alone:?}");

    // A restore archives both, and puts both in their places.
    backup_now(n1);
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        assert_value(&lab, host, "kept", "on two disks");
        host.sh(&place).unwrap().ok().unwrap();
        let (data, logs) = (archived(host), archived_logs(host));
        let log = data.last().map(|name| format!("{name}.wal"));
        assert_eq!(logs, log.into_iter().collect::<Vec<_>>(), "{data:?}");
        let staged = host.sh("ls /disk /var/lib/etcd").unwrap().stdout;
        assert!(!staged.contains("staged"), "{staged}");
    }
    lab.passed();
}
