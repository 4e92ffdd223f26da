//! From the end of an etcd whose write-ahead log is damaged to three healthy voters: by the agents, and by a
//! scripted operator who sees etcd fail on the log and knows the cause at once.

use anyhow::Result;
use etcd_agent_lab::{Host, Lab};

use super::heal::{self, Case};
use super::report::Line;

/// A key whose record is in the newest file of the log.
const KEY: &str = "bench/damaged";

/// The clock starts at the kill: on both sides etcd first has to end on the damaged data.
pub(crate) fn run() -> Result<Vec<Line>> {
    heal::run(&Case {
        names: ["damage", "damage_serves"],
        bytes: 100 * 1024 * 1024,
        prepare: damage,
        lose: "kill -KILL $pid",
        // After the kill systemd starts etcd once more. It leaves etcd stopped after the exit code of that
        // start.
        begins: "sh -c 'until systemctl is-failed --quiet etcd; do sleep 0.02; done'",
        clear: "sh -c 'mv /var/lib/etcd/default /var/lib/etcd/damaged-$(date +%s)'",
    })
}

/// Writes noise over a record of the newest log file. The noise is within the record: etcd sometimes takes
/// noise over the record's length for a torn end, which it repairs.
fn damage(lab: &Lab, host: &Host) -> Result<()> {
    lab.etcdctl(&[host], &["put", KEY, "whole"])?.ok()?;
    // A linearizable read through this member proves that the record is in its log.
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
