//! The rendered settings are exact and in force, and no other setting overrides them unreported: S27.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{DATA, SOON, agent, deb, etcd_environ, holds_for, member_ids, status, wait_status};
use etcd_agent_lab::{Host, Lab, wait_for};

const ENV: &str = "/var/lib/etcd-agent/etcd.env";
const DROP_IN: &str = "/etc/systemd/system/etcd.service.d/90-etcd-agent.conf";
const DEFAULTS: &str = "/etc/default/etcd";

fn prepared(name: &str) -> Lab {
    let lab = Lab::builder(name).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    lab
}

#[test]
fn s27_rendered_settings_are_exact_and_win() {
    let lab = prepared("s27");
    let n1 = lab.host(1).unwrap();
    let hostile = "ETCD_NAME=other\nETCD_DATA_DIR=/tmp/evil\nETCD_INITIAL_CLUSTER_STATE=new\n\
                   ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:4001\nETCD_QUOTA_BACKEND_BYTES=4294967296\n\
                   ETCD_DISCOVERY=http://evil.example/\n";
    n1.write_file(DEFAULTS, hostile, "0644", "root:root").unwrap();
    // Without it the data directory is that of the file.
    let dir = format!("[etcd]\ndata_dir = \"{DATA}\"\n");
    n1.write_file("/etc/etcd-agent/config.d/data.toml", dir, "0644", "root:root")
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    wait_status(n1, 0);
    let (_, members) = member_ids(&lab, n1).unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["n1"], "the name is ours");
    assert!(
        !n1.sh("ls -d /tmp/evil").unwrap().success(),
        "the data directory is ours"
    );

    // The settings of the next start, as in the environment file.
    let existing = || {
        let env = n1.read_file(ENV)?;
        let mut lines = env
            .lines()
            .filter(|line| line.starts_with("ETCD_INITIAL_CLUSTER_STATE="));
        Ok(lines.any(|line| line.contains("existing")).then_some(env))
    };
    let env = wait_for("the settings after the first start", SOON, existing).unwrap();
    assert_eq!(agent(n1, &["render", "-o", "env"]).ok().unwrap().stdout, env);
    let drop_in = n1.read_file(DROP_IN).unwrap();
    assert_eq!(
        agent(n1, &["render", "-o", "dropin"]).ok().unwrap().stdout,
        drop_in
    );

    // The settings of the process after that start.
    n1.systemctl(&["restart", "etcd"]).unwrap().ok().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    let mut process = etcd_environ(n1);
    process.retain(|key, _| key.starts_with("ETCD_"));
    assert_eq!(process.get("ETCD_NAME").map(String::as_str), Some("n1"));
    assert_eq!(
        process.get("ETCD_DATA_DIR").map(String::as_str),
        Some("/var/lib/etcd/default")
    );
    let flags = agent(n1, &["render", "-o", "flags"]).ok().unwrap();
    let rendered: BTreeMap<String, String> = flags
        .text()
        .split(' ')
        .map(|flag| {
            let (name, value) = flag
                .trim_matches('\'')
                .trim_start_matches("--")
                .split_once('=')
                .expect(flag);
            (
                format!("ETCD_{}", name.replace('-', "_").to_uppercase()),
                value.to_owned(),
            )
        })
        .collect();
    // Settings that the agent does not set are either unset, or a person may set them.
    let unset = |key: &String| drop_in.contains(&format!("UnsetEnvironment={key}\n"));
    assert!(process.keys().all(|key| !unset(key)), "{process:?}");
    let ours: BTreeMap<_, _> = process
        .into_iter()
        .filter(|(key, _)| rendered.contains_key(key))
        .collect();
    assert_eq!(ours, rendered, "flags, environment and process agree");
    let names = env
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| !key.starts_with('#'));
    assert_eq!(
        names.map(|(key, _)| key).collect::<Vec<_>>(),
        ours.keys().collect::<Vec<_>>()
    );
    assert!(drop_in.contains(&format!("\nEnvironmentFile={ENV}\n")));
    foreign_settings_of_the_process_are_named(n1);
    wait_status(n1, 0);
    lab.passed();
}

/// Waits until the settings that differ are these, each with the text that says what sets it.
fn wait_drift(host: &Host, expected: &[(&str, &str)]) {
    wait_for(&format!("the settings {expected:?} to be named"), SOON, || {
        let status = status(host)?;
        let reasons = status["decision"]["reasons"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let lines: Vec<String> = reasons
            .iter()
            .filter(|reason| reason["code"] == "settings-drift")
            .filter_map(|reason| Some(reason["text"].as_str()?.to_owned()))
            .collect();
        let is_there = |(setting, place): &(&str, &str)| {
            let start = format!("etcd runs with {setting}, ");
            lines
                .iter()
                .any(|line| line.starts_with(&start) && line.contains(place))
        };
        let found = lines.len() == expected.len() && expected.iter().all(is_there);
        anyhow::ensure!(found, "it names {lines:?}");
        Ok(Some(()))
    })
    .unwrap();
}

/// A person may set what the agent does not set. `status` names it as long as the process has it.
fn foreign_settings_of_the_process_are_named(host: &Host) {
    let runtime = "/run/systemd/system/etcd.service.d/99-test.conf";
    let restart = || host.systemctl(&["restart", "etcd"]).unwrap().ok().unwrap();
    let quota = ("quota-backend-bytes=4294967296", "/etc/default/etcd:5 sets it");
    wait_drift(host, &[quota]);
    host.write_file(DEFAULTS, "\n", "0644", "root:root").unwrap();
    wait_drift(
        host,
        &[("quota-backend-bytes=4294967296", "nothing sets it any more")],
    );

    let text = "[Service]\nEnvironment=ETCD_HEARTBEAT_INTERVAL=250\nExecStart=\n\
                ExecStart=/usr/bin/etcd --election-timeout 2500\n";
    host.write_file(runtime, text, "0644", "root:root").unwrap();
    let command = "systemctl set-environment ETCD_MAX_WALS=9 && systemctl daemon-reload";
    host.sh(command).unwrap().ok().unwrap();
    restart();
    wait_drift(
        host,
        &[
            ("heartbeat-interval=250", "99-test.conf:2 sets it"),
            ("election-timeout=2500", "99-test.conf:4 sets it"),
            (
                "max-wals=9",
                "`systemctl set-environment ETCD_MAX_WALS=...` sets it",
            ),
        ],
    );
    let shown = agent(host, &["status"]).stdout;
    assert!(
        shown.contains("settings-drift: etcd runs with heartbeat-interval=250"),
        "{shown}"
    );
    let report = "setpriv --reuid=etcd-agent --regid=etcd-agent --clear-groups \
                  cat /proc/$(systemctl show -P MainPID etcd)/environ";
    assert!(
        !host.sh(report).unwrap().success(),
        "the daemon cannot read etcd's environment"
    );

    host.wipe(runtime).unwrap();
    let command = "systemctl unset-environment ETCD_MAX_WALS && systemctl daemon-reload";
    host.sh(command).unwrap().ok().unwrap();
    restart();
    wait_drift(host, &[]);
}

/// The agent reports the conflicting flag and its file, and etcd is not started.
fn refused(lab: &Lab, host: &Host, file: &str, flag: &str) {
    wait_for(&format!("{file} to be named"), SOON, || {
        let status = status(host)?;
        let conflicts = status["conflicts"].as_array().cloned().unwrap_or_default();
        let lines: Vec<String> = conflicts
            .iter()
            .filter_map(|line| Some(line.as_str()?.to_owned()))
            .collect();
        let found = lines
            .iter()
            .any(|line| line.contains(file) && line.contains(flag));
        anyhow::ensure!(found, "conflicts {lines:?}: {}", status["decision"]);
        Ok(Some(()))
    })
    .unwrap();
    let shown = agent(host, &["status"]);
    assert!(
        shown.code == 7 && shown.stdout.contains(file),
        "{}: {}",
        shown.code,
        shown.stdout
    );
    holds_for("etcd is not started", Duration::from_secs(3), || {
        host.unit_property("etcd", "ActiveState").unwrap() == "inactive"
    });
    let keys = lab.s3().keys().unwrap();
    assert!(keys.iter().all(|key| !key.ends_with("backup.json")), "{keys:?}");
}

#[test]
fn s27_config_file_in_the_defaults_is_refused() {
    let lab = prepared("s27-defaults");
    let n1 = lab.host(1).unwrap();
    n1.write_file(
        DEFAULTS,
        "# evil\nDAEMON_ARGS=\"--config-file /etc/evil.yaml\"\n",
        "0644",
        "root:root",
    )
    .unwrap();
    lab.start_agents().unwrap();
    refused(&lab, n1, "/etc/default/etcd:2", "--config-file");
    // When the setting is removed, the agent continues by itself.
    n1.write_file(DEFAULTS, "\n", "0644", "root:root").unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    wait_status(n1, 0);
    lab.passed();
}

/// etcd ends at its start if both a flag and its variable are set, even to the same value (H3).
#[test]
fn h03_s27_flags_in_a_later_drop_in_are_refused() {
    let lab = prepared("s27-drop-in");
    let n1 = lab.host(1).unwrap();
    let drop_in = "/etc/systemd/system/etcd.service.d/95-evil.conf";
    let text = "[Service]\nExecStart=\nExecStart=/usr/bin/etcd --config-file=/etc/evil.yaml\n";
    n1.write_file(drop_in, text, "0644", "root:root").unwrap();
    lab.start_agents().unwrap();
    refused(&lab, n1, drop_in, "--config-file");

    let both = "ETCD_NAME=n1 timeout 10 /usr/bin/etcd --name=n1 --data-dir=/tmp/h03 2>&1";
    let both = n1.sh(both).unwrap();
    assert!(
        !both.success()
            && both
                .stdout
                .contains("shadowed by corresponding command-line flag"),
        "{}",
        both.stdout
    );
    let text = "[Service]\nExecStart=\nExecStart=/usr/bin/etcd --name=n1\n";
    n1.write_file(drop_in, text, "0644", "root:root").unwrap();
    n1.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    refused(&lab, n1, "95-evil.conf:3", "--name=n1");
    n1.wipe(drop_in).unwrap();
    n1.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    wait_status(n1, 0);
    lab.passed();
}
