//! The environment that a unit's process gets from its `EnvironmentFile=`: the cases with which the agent's
//! own parser is compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use etcd_agent_lab::{Host, Lab, Suite};
use serde_json::Value;

type Variables = BTreeMap<String, String>;

/// The variables that a real systemd reads from these texts, without those that it sets itself.
fn read(host: &Host, texts: &[String]) -> Vec<Variables> {
    let unit = "[Service]\nType=oneshot\nEnvironmentFile=/etc/b14/%i\nExecStart=/usr/bin/env -0\n\
                StandardOutput=truncate:/run/b14/%i\n";
    host.write_file("/etc/systemd/system/b14@.service", unit, "0644", "root:root")
        .unwrap();
    let mut script = "mkdir -p /run/b14; systemctl daemon-reload; systemctl start".to_owned();
    for (at, text) in texts.iter().enumerate() {
        host.write_file(&format!("/etc/b14/{at}"), text.as_bytes(), "0644", "root:root")
            .unwrap();
        let _ = write!(script, " b14@{at}");
    }
    host.sh(&script).unwrap().ok().unwrap();
    let variables = |at| {
        let text = host.read_file(&format!("/run/b14/{at}")).unwrap();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect::<Variables>()
    };
    let empty = variables(0);
    (1..texts.len())
        .map(|at| {
            let mut found = variables(at);
            found.retain(|key, _| !empty.contains_key(key));
            found
        })
        .collect()
}

#[test]
fn b14_real_systemds_read_environment_files_as_the_agent_does() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../env_files.json")).unwrap();
    let mut texts = vec![String::new()];
    texts.extend(cases.iter().map(|case| case["text"].as_str().unwrap().to_owned()));
    for (suite, expected) in [(Suite::Trixie, "is"), (Suite::Bookworm, "before_254")] {
        let lab = Lab::builder("b14").suite(suite).boot().unwrap();
        let found = read(lab.host(1).unwrap(), &texts);
        for (case, found) in cases.iter().zip(found) {
            let is = case.get(expected).unwrap_or(&case["is"]);
            let is: Variables = serde_json::from_value(is.clone()).unwrap();
            assert_eq!(found, is, "{suite:?}: {}", case["name"]);
        }
        lab.passed();
    }
}
