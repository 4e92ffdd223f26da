//! From the end of an etcd whose write-ahead log is damaged to three healthy voters: by the agents, and by a scripted operator
//! who sees etcd fail on it and knows at once what that means.

use anyhow::Result;
use etcd_agent_lab::{Host, Lab};

use super::heal::{self, Case};
use super::report::Line;

/// A key whose record is in the newest file of the log.
const KEY: &str = "bench/damaged";

/// The clock runs from the kill: etcd has to end on the damaged data first, here as there.
pub(crate) fn run() -> Result<Vec<Line>> {
    heal::run(&Case {
        names: ["damage", "damage_serves"],
        bytes: 100 * 1024 * 1024,
        prepare: damage,
        lose: "kill -KILL $pid",
        // systemd starts etcd once more after the kill, and leaves it down after the exit code that it ends with then.
        begins: "sh -c 'until systemctl is-failed --quiet etcd; do sleep 0.02; done'",
        clear: "sh -c 'mv /var/lib/etcd/default /var/lib/etcd/damaged-$(date +%s)'",
    })
}

/// Noise over a record of the newest log file. Within the record: noise over its length is at times taken for a torn end,
/// which etcd repairs.
fn damage(lab: &Lab, host: &Host) -> Result<()> {
    lab.etcdctl(&[host], &["put", KEY, "whole"])?.ok()?;
    // Only to have it read back through this very member: then it is in its log.
    lab.etcdctl(&[host], &["get", KEY])?.ok()?;
    let script = format!(
        "cd /var/lib/etcd/default/member/wal; newest=$(ls *.wal | tail -n 1)\n\
         last() {{ grep -abo {KEY} $newest | tail -n 1 | cut -d : -f 1; }}\n\
         at=$(last)\n\
         dd if=/dev/urandom of=$newest bs=1 seek=$at count=4 conv=notrunc status=none\n\
         test \"$(last)\" != $at"
    );
    host.sh(&script)?.ok()?;
    Ok(())
}
