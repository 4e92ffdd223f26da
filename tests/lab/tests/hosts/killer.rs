//! Kills agents at the steps of their work.

use std::collections::BTreeSet;

use crate::common::SOON;
use etcd_agent_lab::{Host, Lab, wait_until};

/// The decisions without which no restore of a new backup ends.
pub(crate) const RESTORE: [&str; 10] = [
    "backup",
    "fetch-backup",
    "propose",
    "stop-etcd",
    "stage-restore",
    "replace-data",
    "assign",
    "apply",
    "clear-gate",
    "start-etcd",
];

/// Follows the journal of the agent on its host from a cursor on, and kills the agent as soon as it logs a
/// decision: for each kind of decision once, at its first occurrence. At that time the agent has carried out
/// the decision completely, partly or not at all.
const KILLER: &str = r#"
seen=" "
journalctl --follow --no-tail --after-cursor="$1" --output=cat --output-fields=ETCD_AGENT_DECISION \
    _SYSTEMD_UNIT=etcd-agent.service |
while read -r decision; do
    case "$seen" in *" $decision "*) continue ;; esac
    seen="$seen$decision "
    until read -r pid </sys/fs/cgroup/system.slice/etcd-agent.service/cgroup.procs && kill -KILL "$pid"; do
        sleep 0.02
    done 2>/dev/null
    echo "killed at $decision"
done
"#;

/// Waits for a decision of the agent on its host, from a cursor on.
const WAITS: &str = r#"
while read -r decision; do
    [ "$decision" = "$2" ] && exit 0
done < <(exec journalctl --follow --no-tail --after-cursor="$1" --output=cat \
    --output-fields=ETCD_AGENT_DECISION _SYSTEMD_UNIT=etcd-agent.service 2>/dev/null)
exit 1
"#;

/// The end of a host's journal.
pub(crate) fn cursor(host: &Host) -> String {
    let last = host
        .sh("journalctl --lines=1 --output=export | sed -n 's/^__CURSOR=//p'")
        .unwrap()
        .ok()
        .unwrap();
    last.text().to_owned()
}

/// Waits until the agent of a host has logged this decision after the cursor. At that time the agent has carried it out
/// completely, partly or not at all.
pub(crate) fn wait_decision(host: &Host, cursor: &str, decision: &str) {
    let argv = ["bash", "-c", WAITS, "bash", cursor, decision];
    host.exec_for(2 * SOON, &argv).unwrap().ok().unwrap();
}

/// Killers on all hosts of a lab.
pub(crate) struct Killers<'l> {
    lab: &'l Lab,
    unit: &'static str,
}

impl<'l> Killers<'l> {
    /// Begins to kill. Each use in a lab needs a name of its own.
    pub(crate) fn on(lab: &'l Lab, unit: &'static str) -> Self {
        for host in lab.hosts() {
            let last = cursor(host);
            let name = format!("--unit={unit}");
            let argv = ["systemd-run", "--quiet", &name, "sh", "-c", KILLER, "sh", &last];
            host.exec(&argv).unwrap().ok().unwrap();
        }
        Self { lab, unit }
    }

    /// The decisions at which agents were killed so far.
    fn killed_at(&self) -> BTreeSet<String> {
        let said = |host: &Host| host.journal(self.unit).unwrap();
        let said: String = self.lab.hosts().iter().map(said).collect();
        let kills = said.lines().filter_map(|line| line.split_once("killed at "));
        let decisions = kills.map(|(_, decision)| decision.trim().to_owned());
        // systemd names the unit by its script.
        decisions
            .filter(|text| text.chars().all(|c| c == '-' || c.is_ascii_lowercase()))
            .collect()
    }

    /// Waits until each of these decisions was interrupted on some host, then ends.
    pub(crate) fn all_at(self, wanted: &[&str]) {
        wait_until("a kill at every step", SOON, || {
            let all = self.killed_at();
            let missing: Vec<_> = wanted.iter().filter(|w| !all.contains(**w)).collect();
            anyhow::ensure!(missing.is_empty(), "not yet at {missing:?}, but at {all:?}");
            Ok(true)
        })
        .unwrap();
        for host in self.lab.hosts() {
            // A host that was booted meanwhile has none any more.
            host.sh(&format!("systemctl stop {} 2>/dev/null || true", self.unit))
                .unwrap()
                .ok()
                .unwrap();
        }
    }
}
