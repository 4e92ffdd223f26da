//! Grafana's dashboard and the alert rules with what a real Prometheus has scraped from the agents.
//!
//! Debian has no package of Grafana. The queries of each panel are asked of Prometheus as Grafana would, and a
//! browser draws the answers where the dashboard places them.

use std::path::Path;

use crate::common::SOON;
use etcd_agent_lab::{Browser, Host, Lab, PROMETHEUS, wait_until};
use serde_json::Value;

/// The port of `[metrics] listen` on each host.
const PORT: u16 = 2381;
/// The table for the configuration of each agent.
pub(crate) const METRICS: &str = "[metrics]\nlisten = \"0.0.0.0:2381\"\ntls = true\n";

const DRAW: &str = include_str!("dashboard.js");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/etcd-agent.json");
/// CSS pixels.
const SIZE: (u32, u32) = (1400, 2738);

/// Panels about failures, which may be empty, and about a second store, which the lab does not configure.
const MAY_BE_EMPTY: [&str; 4] = [
    "Failures of jobs in a row",
    "Failed actions per hour",
    "Failures of copies in a row",
    "Age of the complete copy",
];

/// Lets Prometheus on this host scrape all agents.
pub(crate) fn start(lab: &Lab, host: &Host) {
    only_clients_with_a_certificate(lab, host);
    lab.start_prometheus(host, PORT).unwrap();
}

/// `metrics.tls`: both the metrics and the status page, from another host.
fn only_clients_with_a_certificate(lab: &Lab, host: &Host) {
    let other = lab
        .hosts()
        .iter()
        .find(|other| other.name() != host.name())
        .unwrap();
    let with = "--cacert /etc/etcd-agent/tls/ca.crt --cert /etc/etcd-agent/tls/node.crt --key /etc/etcd-agent/tls/node.key";
    for path in ["/metrics", "/"] {
        let url = format!("https://{}:{PORT}{path}", other.name());
        let curl = |options: &str, url: &str| {
            let command = format!("curl -sS -o /dev/null -w '%{{http_code}}' --max-time 10 {options} {url}");
            host.sh(&command).unwrap()
        };
        let admitted = curl(with, &url);
        assert_eq!(admitted.stdout, "200", "{url}: {}", admitted.stderr);
        let stranger = curl("--cacert /etc/etcd-agent/tls/ca.crt", &url);
        assert!(
            !stranger.success() && stranger.stdout == "000",
            "{url}: {stranger:?}"
        );
        let plain = curl("", &url.replace("https", "http"));
        assert!(!plain.success(), "{url}: {plain:?}");
    }
}

/// The alerts that fire now. Each rule can be evaluated.
fn firing(host: &Host) -> Vec<Value> {
    let url = format!("{PROMETHEUS}/api/v1/rules");
    let answer = host.exec(&["curl", "-sSf", &url]).unwrap().ok().unwrap();
    let rules: Value = serde_json::from_str(&answer.stdout).unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let mut rules: Vec<Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect();
    assert!(rules.len() >= 20, "{rules:?}");
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    rules.retain(|rule| rule["state"] == "firing");
    rules
}

/// Waits until no alert fires.
pub(crate) fn wait_quiet(host: &Host) {
    wait_until("no alert to fire", SOON, || {
        let firing = firing(host);
        anyhow::ensure!(firing.is_empty(), "{firing:?}");
        Ok(true)
    })
    .unwrap();
}

/// Each query of the dashboard has data of all agents, each rule can be evaluated, and no alert is left over, except
/// for elections that the test has caused. With `UPDATE_SCREENSHOTS` in the environment the picture in the documentation
/// is replaced.
pub(crate) fn check(lab: &Lab, host: &Host, seconds: u64) {
    let mut browser = Browser::start(lab, host).unwrap();
    browser.shape(SIZE.0, SIZE.1, false).unwrap();
    browser.open(&format!("{PROMETHEUS}/-/ready")).unwrap();
    let found = browser
        .value(&format!(
            "({})({DASHBOARD}, \"prod\", {seconds})",
            DRAW.trim_end().trim_end_matches(';')
        ))
        .unwrap();
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/dashboard.png");
        browser.screenshot(Path::new(picture)).unwrap();
    }
    let found = found.as_array().unwrap();
    assert!(found.len() > 40, "only {} queries: {found:?}", found.len());
    for query in found {
        let panel = query["panel"].as_str().unwrap();
        let series = query["labels"].as_array().unwrap();
        let each_host = query["legend"] == "{{instance}}" && panel != "Stored increments";
        let expected = if each_host { lab.hosts().len() } else { 1 };
        let is_empty = series.is_empty() && MAY_BE_EMPTY.contains(&panel);
        assert!(series.len() >= expected || is_empty, "{panel}: {query}");
    }

    // This one alert may fire: the test itself has moved the leader about four times since `wait_quiet`, as many as the
    // alert needs.
    for rule in firing(host) {
        assert_eq!(rule["name"], "EtcdAgentManyElections", "{rule}");
    }
}
