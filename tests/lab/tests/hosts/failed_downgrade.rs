//! A downgrade to an etcd that does not start.

use crate::common::{SOON, agent, all_run, all_written, formed_of};
use crate::down_times::{now, one_at_a_time};
use crate::etcd_upgrades::wait_converted;
use etcd_agent_lab::{Host, wait_until};

/// It says its version, as the agent asks it to, and ends at once as a server.
const BROKEN: &str = r#"cd /opt/etcd-v3.5.35
mv etcd etcd.good
cat > etcd <<'EOF'
#!/bin/sh
[ "$1" = --version ] && exec /opt/etcd-v3.5.35/etcd.good --version
echo "this etcd does not serve" >&2
exit 1
EOF
chmod 0755 etcd"#;

#[test]
fn s10_a_downgrade_to_an_etcd_that_does_not_start_is_cancelled() {
    let lab = formed_of("undone", 3, "3.6.16");
    let n1 = lab.host(1).unwrap();
    lab.each(|host| host.sh(BROKEN)?.ok().map(drop)).unwrap();
    let load = lab.start_load("d").unwrap();
    load.wait_for(50, SOON).unwrap();
    // etcd may still convert the data of the new cluster, and no downgrade begins meanwhile.
    wait_converted(&lab, "3.6.0");
    let since = now(&lab);
    let said = std::thread::scope(|scope| {
        let order = ["downgrade", "--to", "3.5.35", "--no-backup", "--timeout", "170s"];
        let downgrading = scope.spawn(move || agent(n1, &order));
        wait_until("one etcd not to start", SOON, || {
            let broken = |host: &&Host| {
                host.journal("etcd")
                    .is_ok_and(|text| text.contains("this etcd does not serve"))
            };
            // What it says is judged below.
            let ended = downgrading.is_finished();
            Ok(ended || lab.hosts().iter().any(|host| broken(&host)))
        })
        .unwrap();
        downgrading.join().unwrap()
    });
    assert_eq!(said.code, 1, "{}", said.stderr);
    for part in [
        "etcd 3.5.35 on n",
        "has not served for 90 s",
        "the downgrade was cancelled, and all members run the etcd of before",
    ] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    all_run(&lab, "3.6.16");
    lab.wait_healthy(3, SOON).unwrap();
    wait_converted(&lab, "3.6.0");
    let times = one_at_a_time(&lab, &since);
    assert_eq!(
        times.values().sum::<usize>(),
        1,
        "one member got the older etcd: {times:?}"
    );
    load.wait_for(50, SOON).unwrap();
    all_written(&lab, &load.stop().unwrap());
    lab.passed();
}
