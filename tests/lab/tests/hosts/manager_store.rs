//! From etcd-manager's store: backups of an etcd that somebody else manages, no empty cluster while the store
//! has backups, and a restore of them as epoch 1.

use std::fs;
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, deb, etcd_pids, get, holds_for, listed, put, wait_coordinator_says, wait_reason,
};
use etcd_agent_lab::{Host, Lab, S3, wait_until};
use serde_json::Value;

/// The unit of docs/backup-and-restore.md, with the lab's URLs and certificates.
const UNIT: &str = "[Unit]\nDescription=Backups of etcd\n[Service]\nType=notify\n\
    ExecStart=/usr/bin/etcd-agent backup run --endpoints https://n1:2379,https://n2:2379,https://n3:2379 \
    --cacert /etc/etcd-agent/tls/ca.crt --cert /etc/etcd-agent/tls/node.crt --key /etc/etcd-agent/tls/node.key\n\
    User=etcd-agent\nRestart=always\nRestartSec=5\nWatchdogSec=300\nNoNewPrivileges=yes\nProtectSystem=strict\n\
    ProtectHome=yes\nPrivateTmp=yes\n";

const COMMAND: &str = "2023-11-14T23:00:00Z-000000";

fn stored(lab: &Lab, end: &str) -> Vec<String> {
    let keys = lab.s3().keys().unwrap();
    keys.into_iter().filter(|key| key.ends_with(end)).collect()
}

/// Writes `/etc/etcd-agent/backup.toml` and the unit, and starts it.
fn start_beside(lab: &Lab, host: &Host) {
    let toml = format!(
        "[cluster]\nname = \"prod\"\n[store]\nurl = \"s3://{}/lab\"\nendpoint = \"{}\"\nregion = \"{}\"\npath_style = true\n\
         credentials_file = \"/etc/etcd-agent/aws-credentials\"\n[backup]\ninterval = \"2s\"\nformat = \"etcd-manager\"\n",
        S3::BUCKET,
        lab.s3().endpoint(),
        S3::REGION
    );
    let keys = lab.s3().credentials_file();
    lab.ca().unwrap().install_all(host).unwrap();
    for (path, text, mode, owner) in [
        ("/etc/etcd-agent/backup.toml", toml.as_str(), "0644", "root:root"),
        (
            "/etc/etcd-agent/aws-credentials",
            &keys,
            "0640",
            "root:etcd-agent",
        ),
        (
            "/etc/systemd/system/etcd-agent-backup.service",
            UNIT,
            "0644",
            "root:root",
        ),
    ] {
        host.write_file(path, text, mode, owner).unwrap();
    }
    host.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    host.systemctl(&["start", "etcd-agent-backup"])
        .unwrap()
        .ok()
        .unwrap();
}

#[test]
fn s39_a_store_of_etcd_manager_is_never_taken_for_empty_and_is_restored() {
    let lab = Lab::builder("manager").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.prepare_by_hand("").unwrap();
    lab.start_by_hand().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    put(&lab, "a", "b");

    // Backups run next to etcd, without effect on it.
    let pids = etcd_pids(lab.hosts());
    start_beside(&lab, n1);
    wait_until("two backups", SOON, || {
        Ok(stored(&lab, "/_etcd_backup.meta").len() >= 2)
    })
    .unwrap();
    wait_until("the unit to report the newest backup", SOON, || {
        let said = n1.unit_property("etcd-agent-backup", "StatusText")?;
        Ok(said.starts_with("newest backup"))
    })
    .unwrap();
    n1.systemctl(&["stop", "etcd-agent-backup"])
        .unwrap()
        .ok()
        .unwrap();
    let result = n1.unit_property("etcd-agent-backup", "Result").unwrap();
    assert!(result.contains("success"), "{result}");
    assert_eq!(etcd_pids(lab.hosts()), pids);

    // The cluster is lost. The store then holds only what etcd-manager would have left: its files and a
    // command.
    lab.each(|host| {
        host.systemctl(&["stop", "etcd"])?.ok()?;
        host.wipe(DATA)
    })
    .unwrap();
    for key in stored(&lab, "/backup.json") {
        fs::remove_file(lab.s3().dir().join(key)).unwrap();
    }
    let newest = stored(&lab, "/_etcd_backup.meta").pop().unwrap();
    let newest = newest.split('/').rev().nth(1).unwrap().to_owned();
    let created = stored(&lab, "/control/etcd-cluster-created");
    let control = lab.s3().dir().join(&created[0]).with_file_name(COMMAND);
    fs::create_dir_all(&control).unwrap();
    let command = format!(
        r#"{{"timestamp":"1700002800000000000","restoreBackup":{{"clusterSpec":{{"memberCount":3}},"backup":"{newest}"}}}}"#
    );
    fs::write(control.join("_command.json"), command).unwrap();

    lab.configure(|_, _| ()).unwrap();
    lab.start_agents().unwrap();
    for host in lab.hosts() {
        let reason = wait_reason(host, "store-without-epoch");
        assert!(reason.contains("etcd-agent restore latest"), "{reason}");
    }
    holds_for("nothing is formed", Duration::from_secs(10), || {
        let off = |host: &Host| host.main_pid("etcd.service").unwrap().is_none();
        lab.hosts().iter().all(off) && stored(&lab, "/control/epochs/1").is_empty()
    });
    let there = listed(n1, &["backup", "list"], "backups");
    assert!(
        there.len() >= 2 && there.iter().all(|one| one["writer"] == "etcd-manager"),
        "{there:?}"
    );

    agent(lab.host(2).unwrap(), &["restore", "latest", "--yes"])
        .ok()
        .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(get(&lab, lab.host(3).unwrap(), "a").unwrap(), "b");

    // Increments do not wait until the next full backup is due: there is a chain at once.
    wait_until("a full backup of the agent and increments", SOON, || {
        put(&lab, "after", "the restore");
        Ok(!stored(&lab, "/backup.json").is_empty()
            && stored(&lab, ".zst")
                .iter()
                .any(|key| key.contains("/increments/")))
    })
    .unwrap();

    // The command waits for a person, who deletes it.
    let reason = wait_coordinator_says(&lab, "command-waiting");
    assert!(reason.contains(COMMAND), "{reason}");
    let commands = listed(n1, &["etcd-manager", "commands", "list"], "commands");
    assert_eq!(commands[0]["restore"], newest.as_str(), "{commands:?}");
    agent(n1, &["etcd-manager", "commands", "delete", COMMAND])
        .ok()
        .unwrap();
    let again = agent(n1, &["etcd-manager", "commands", "delete", COMMAND, "-o", "json"])
        .ok()
        .unwrap();
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changed"], false, "{again}");
    let left = listed(n1, &["etcd-manager", "commands", "list"], "commands");
    assert!(left.is_empty(), "{left:?}");

    // The way back: the agent writes a backup that etcd-manager can read.
    let before = stored(&lab, "/_etcd_backup.meta");
    agent(n1, &["backup", "now", "--format", "etcd-manager"])
        .ok()
        .unwrap();
    let after = stored(&lab, "/_etcd_backup.meta");
    let new = after.iter().find(|key| !before.contains(key)).unwrap();
    let marker: Value = serde_json::from_slice(&fs::read(lab.s3().dir().join(new)).unwrap()).unwrap();
    assert_eq!(marker["clusterSpec"]["memberCount"], 3, "{marker}");
    lab.passed();
}
