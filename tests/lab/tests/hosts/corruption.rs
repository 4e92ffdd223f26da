//! A member whose data differs from the others': it is reported, and rebuilt where the configuration says so.

use crate::common::{
    SOON, agent, answered, archived, assert_value, deb, follower, get, kill_etcd, member_ids, others, put,
    wait_coordinator_says, wait_reason,
};
use etcd_agent_lab::{Host, Lab, wait_for};

/// Changes a value in the database's file. bbolt has no checksums of its pages, so etcd does not notice.
const CHANGE: &str = r#"perl -e '
my $file = "/var/lib/etcd/default/member/snap/db";
open F, "+<", $file or die; binmode F; local $/; my $all = <F>; my $changed = 0;
while ($all =~ /right-value/g) { seek F, $-[0], 0; print F "wrong"; $changed++ }
close F or die; $changed or die "the value is not in the database"'"#;

fn configure(lab: &Lab, corrupt: bool) {
    lab.configure(|_, config| {
        config.extra = format!("[repair]\ncheck_interval = \"10s\"\ncorrupt = {corrupt}\n");
    })
    .unwrap();
}

fn change_data_of(host: &Host) {
    agent(host, &["pause"]).ok().unwrap();
    wait_reason(host, "paused");
    kill_etcd(host);
    host.sh(CHANGE).unwrap().ok().unwrap();
    agent(host, &["resume"]).ok().unwrap();
}

#[test]
fn a_member_whose_data_differs_is_reported_and_rebuilt_from_the_others() {
    let lab = Lab::builder("corruption")
        .hosts(3)
        .package(&deb())
        .boot()
        .unwrap();
    lab.s3().start().unwrap();
    configure(&lab, false);
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    put(&lab, "key", "right-value");
    let victim = follower(&lab);
    let other = others(&lab, victim)[0];
    let before = member_ids(&lab, other).unwrap();

    change_data_of(victim);
    lab.wait_healthy(3, SOON).unwrap();
    // What clients would get from it.
    assert_eq!(get(&lab, victim, "key").unwrap(), "wrong-value");
    let said = wait_coordinator_says(&lab, "data-differs");
    let expected = format!("the data of {} differs from the majority's", victim.name());
    assert!(said.contains(&expected), "{said}");
    assert_eq!(member_ids(&lab, other).unwrap(), before, "it is only reported");

    let load = lab.start_load("c").unwrap();
    load.wait_for(50, SOON).unwrap();
    let kept = archived(victim).len();
    configure(&lab, true);
    lab.each(|host| host.systemctl(&["reload", "etcd-agent"])?.ok().map(drop))
        .unwrap();
    let new = wait_for("the member to be rebuilt", SOON, || {
        let now = member_ids(&lab, other)?.1.get(victim.name()).copied();
        Ok(now.filter(|id| Some(id) != before.1.get(victim.name())))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap();
    assert_value(&lab, victim, "key", "right-value");
    let (cluster, mut after) = member_ids(&lab, other).unwrap();
    assert_eq!(
        after.insert(victim.name().to_owned(), before.1[victim.name()]),
        Some(new)
    );
    assert_eq!((cluster, after), before, "the others are the same members");
    assert_eq!(archived(victim).len(), kept + 1, "its data is in the archive");
    what_was_not_compared_does_not_count_as_the_same(&lab);
    lab.passed();
}

/// With authentication on, etcd hashes its data only for users with the role `root`.
fn what_was_not_compared_does_not_count_as_the_same(lab: &Lab) {
    crate::auth::turn_on(lab);
    for host in lab.hosts() {
        let args = ["user", "revoke-role", host.name(), "root"];
        let said = answered("revoke-role", || lab.etcdctl(&[lab.host(1)?], &args));
        // A second try may find that the first one has done it.
        let done = said.success() || said.stderr.contains("role is not granted");
        assert!(done, "{}", said.stderr);
    }
    let said = wait_coordinator_says(lab, "hash-check-failed");
    for host in lab.hosts() {
        let refused = format!("{} (hash the keys at etcd", host.name());
        assert!(
            said.contains(&refused) && said.contains("permission denied"),
            "{said}"
        );
    }
}
