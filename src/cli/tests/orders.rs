//! The output about operators' orders: pauses, restarts and confirmed epochs.

use std::collections::BTreeMap;

use super::fixture::{NOW, decision, name, node, observation, status};
use crate::cli::direct::{self, Silent, Spread};
use crate::cli::on_nodes::{NodeProgress, meant, progress_of};
use crate::cli::restart::RESTART;
use crate::cli::upgrade;
use crate::cli::upgrade_target::Target;
use crate::cli::upgrade_wait::{Trouble, UpgradeProgress, upgrade_progress};
use crate::cli::version_path::{Way, path};
use crate::cli::{Exit, epoch, status_view};
use crate::model::*;

fn register(change: &DirectiveChange) -> Directives {
    Directives::default().after(change, &name("n1"), NOW).unwrap()
}

#[test]
fn a_paused_cluster() {
    let mut status = status();
    status.node.steering.directives = register(&DirectiveChange::Pause);
    insta::assert_snapshot!("status_paused", status_view::text(&status, false));
}

#[test]
fn what_a_pause_would_do() {
    let change = DirectiveChange::Pause;
    let view = DirectiveView {
        directives: register(&change),
        changed: false,
        steps: crate::plan::steps(&change),
        decision: Some(decision("n1 leader of prod, 3/3 healthy, PAUSED")),
    };
    insta::assert_snapshot!("pause_dry_run", direct::render(&view));
}

/// Right after its start an etcd does not answer its agent yet. `restart --rolling` passed such a node over.
#[test]
fn an_order_for_all_leaves_no_member_out() {
    let mut seen = status();
    if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name("n2")) {
        peer.etcd = Fact::Unreachable("it starts".into());
    }
    seen.peers
        .insert(name("n3"), Fact::Unreachable("no answer".into()));
    seen.peers.insert(
        name("n4"),
        Fact::Known(NodeStatus {
            etcd: Fact::Absent,
            members: Fact::Absent,
            ..node(4)
        }),
    );
    let all = meant(&seen, None, true, &RESTART).unwrap();
    assert_eq!(all, ["n1", "n2", "n3"].map(name).into(), "n4 is a spare");
    assert!(meant(&seen, Some(name("n2")), false, &RESTART).is_err());
    // Without an own list, the one of a peer counts if it was read through quorum.
    let list = std::mem::replace(&mut seen.node.members, Fact::Absent);
    let mut read_by_n2 = |linearizable| {
        let list = list.known().unwrap().clone();
        if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name("n2")) {
            peer.members = Fact::Known(MemberList { linearizable, ..list });
        }
        meant(&seen, None, true, &RESTART).unwrap()
    };
    assert_eq!(read_by_n2(true), all);
    // Without any list only the etcds that answer are known.
    assert_eq!(read_by_n2(false), [name("n1")].into());
}

#[test]
fn where_an_order_is_on_its_way() {
    let order = register(&DirectiveChange::Pause);
    let mut seen = status();
    seen.node.steering.directives = order.clone();
    seen.peers
        .insert(name("n3"), Fact::Unreachable("timed out".into()));
    assert_eq!(
        direct::spread(&seen, &order),
        Spread::Waits("not adopted yet by n2".to_owned())
    );
    if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name("n2")) {
        peer.steering.directives = order.clone();
    }
    let silent = "n3 does not answer, it gets the order when it answers again: timed out".to_owned();
    assert_eq!(
        direct::spread(&seen, &order),
        Spread::Everywhere(Silent(vec![silent]))
    );
    seen.node.steering.directives.by = Some(name("n2"));
    assert!(matches!(direct::spread(&seen, &order), Spread::Overruled(_)));
}

#[test]
fn where_a_restart_stands() {
    let change = DirectiveChange::Restart {
        nodes: [name("n1"), name("n2"), name("n3")].into(),
    };
    let order = register(&change);
    let mut seen = status();
    seen.node.steering.directives = order.clone();
    let wish = Some(RestartWish {
        order: Some(1),
        ..RestartWish::new("an operator ordered it".into())
    });
    let peer = |seen: &mut AdminStatus, node: &str, change: &dyn Fn(&mut NodeStatus)| {
        if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name(node)) {
            change(peer);
        }
    };
    let waits = |text: &str| NodeProgress::Waits(text.to_owned());
    assert_eq!(
        progress_of(&seen, &order, &RESTART),
        waits("not adopted yet by n2, n3")
    );
    for node in ["n2", "n3"] {
        peer(&mut seen, node, &|peer| {
            peer.steering.directives = order.clone();
            peer.steering.wants_restart.clone_from(&wish);
        });
    }
    peer(&mut seen, "n2", &|peer| {
        peer.steering.wants_restart = None;
        peer.etcd = Fact::Absent;
    });
    assert_eq!(
        progress_of(&seen, &order, &RESTART),
        waits("1 of 3 restarted; not serving: n2; to come: n3")
    );
    insta::assert_snapshot!("status_restarting", status_view::text(&seen, false));
    for node in ["n2", "n3"] {
        peer(&mut seen, node, &|peer| {
            peer.steering.wants_restart = None;
            peer.etcd = fixture_etcd();
        });
    }
    assert_eq!(progress_of(&seen, &order, &RESTART), NodeProgress::Done);
    let withdrawn = order
        .after(&DirectiveChange::CancelRestart, &name("n2"), NOW)
        .unwrap();
    seen.node.steering.directives = withdrawn;
    assert!(matches!(
        progress_of(&seen, &order, &RESTART),
        NodeProgress::Overruled(_)
    ));
}

fn fixture_etcd() -> Fact<EtcdStatus> {
    node(2).etcd
}

#[test]
fn f02_what_an_operator_confirms_is_one_genesis_that_is_reported() {
    let mut seen = observation();
    let cluster = seen.spec.cluster.clone();
    let members = [(name("n1"), Vec::new()), (name("n2"), Vec::new())].into();
    let reported = |epoch: u64, token: &str| Genesis {
        epoch: Epoch(epoch),
        cluster: cluster.clone(),
        token: token.to_owned(),
        members: BTreeMap::clone(&members),
        origin: Origin::Backup(BackupId::new("2026-03-01T12:00:00Z-000003").unwrap()),
        electorate: BTreeMap::new(),
        cluster_id: ClusterId(2),
        created: NOW,
        former: Vec::new(),
        etcd: None,
    };
    let tell = |seen: &mut Observation, number: u64, genesis: Genesis| {
        let mut status = node(number);
        status.genesis = Some(genesis);
        seen.peers
            .insert(name(&format!("n{number}")), Fact::Known(status));
    };
    assert!(epoch::meant(&seen, Epoch(2)).is_err());
    tell(&mut seen, 2, reported(2, "prod-2-a"));
    let (genesis, sources) = epoch::meant(&seen, Epoch(2)).unwrap();
    assert_eq!(genesis.token, "prod-2-a");
    insta::assert_snapshot!("epoch_confirm", epoch::warning(&seen, &genesis, &sources));
    tell(&mut seen, 3, reported(2, "prod-2-b"));
    let refused = epoch::meant(&seen, Epoch(2)).unwrap_err();
    assert_eq!(refused.exit, Exit::Refused);
    insta::assert_snapshot!("epoch_confirm_two", refused.text);
}

fn version(text: &str) -> EtcdVersion {
    text.parse().unwrap()
}

/// All nodes have these versions on disk and run this one.
pub(super) fn with_versions(versions: &[&str], runs: &str) -> AdminStatus {
    let mut seen = status();
    each(&mut seen, &|status| {
        status.etcd_binaries = Some(EtcdBinaries {
            base: None,
            versions: versions.iter().map(|text| version(text)).collect(),
            pinned: false,
        });
        runs_version(status, runs);
    });
    seen
}

fn each(seen: &mut AdminStatus, change: &dyn Fn(&mut NodeStatus)) {
    change(&mut seen.node);
    for peer in seen.peers.values_mut() {
        if let Fact::Known(status) = peer {
            change(status);
        }
    }
}

fn runs_version(status: &mut NodeStatus, text: &str) {
    let Fact::Known(etcd) = &mut status.etcd else {
        return;
    };
    text.clone_into(&mut etcd.version);
}

/// What runs, what is on the disks, where to; the steps, or a part of the refusal.
type WayCase<'a> = (&'a str, &'a [&'a str], &'a str, Result<&'a [&'a str], &'a str>);

fn check_ways(way: Way, table: &[WayCase<'_>]) {
    for (runs, disk, to, expected) in table {
        let found = path(&with_versions(disk, runs), version(to), way);
        match expected {
            Ok(steps) => {
                let steps: Vec<EtcdVersion> = steps.iter().map(|step| version(step)).collect();
                assert_eq!(found, Ok(steps), "{runs} to {to}");
            }
            Err(part) => assert!(found.unwrap_err().contains(part), "{runs} to {to}"),
        }
    }
}

#[test]
fn the_way_to_a_version_goes_minor_by_minor() {
    let all = ["3.5.16", "3.5.35", "3.6.1", "3.6.16", "3.7.3"];
    let table: [WayCase<'_>; 10] = [
        ("3.6.16", &all, "3.6.16", Ok(&[])),
        ("3.5.35", &all, "3.6.16", Ok(&["3.6.16"])),
        ("3.5.35", &["3.6.1"], "3.6.16", Err("belongs to root")),
        ("3.5.16", &all, "3.6.16", Ok(&["3.5.35", "3.6.16"])),
        ("3.6.1", &all, "3.7.3", Ok(&["3.7.3"])),
        ("3.5.16", &all, "3.7.3", Ok(&["3.5.35", "3.6.16", "3.7.3"])),
        ("3.5.35", &["3.7.3"], "3.7.3", Err("one minor at a time")),
        (
            "3.5.16",
            &["3.6.16"],
            "3.6.16",
            Err("no version on the way is on every node"),
        ),
        ("3.7.3", &all, "3.6.16", Err("is newer than 3.6.16")),
        ("3.5.16", &all, "3.6.99", Err("n1 has no etcd 3.6.99")),
    ];
    check_ways(Way::Up, &table);
}

#[test]
fn what_the_step_to_3_7_waits_for_is_known_before_the_first_step() {
    let said = |runs: &str, to: &str| {
        let seen = with_versions(&["3.5.16", "3.5.35", "3.6.16", "3.7.3"], runs);
        let steps = path(&seen, version(to), Way::Up).unwrap();
        upgrade::waits_for_log(&seen, &Target::versions(&steps))
    };
    for runs in ["3.5.16", "3.5.35"] {
        let text = said(runs, "3.7.3").unwrap();
        for part in [
            "the step to 3.7.3 waits until no member's log holds entries of etcd 3.5",
            "all members stay at 3.6.16; `etcd-agent upgrade --to 3.7.3` continues later",
            "snapshot-count = \"100\"",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert_eq!(said("3.5.35", "3.6.16"), None, "3.6 reads them");
    assert_eq!(
        said("3.6.16", "3.7.3"),
        None,
        "the order itself is refused while they are there"
    );
    assert_eq!(said("3.7.3", "3.7.3"), None);
}

#[test]
fn the_way_of_a_downgrade_goes_back_minor_by_minor() {
    let all = ["3.5.16", "3.5.35", "3.6.1", "3.6.16", "3.7.3"];
    let table: [WayCase<'_>; 7] = [
        ("3.6.16", &all, "3.6.16", Ok(&[])),
        ("3.6.16", &all, "3.6.1", Ok(&["3.6.1"])),
        ("3.7.3", &all, "3.5.35", Ok(&["3.6.16", "3.5.35"])),
        (
            "3.7.3",
            &["3.5.35"],
            "3.5.35",
            Err("no version on the way is on every node"),
        ),
        ("3.6.16", &all, "3.5.16", Err("take 3.5.26")),
        ("3.5.35", &all, "3.6.16", Err("is older than 3.6.16")),
        ("3.6.16", &all, "3.5.34", Err("n1 has no etcd 3.5.34")),
    ];
    check_ways(Way::Down, &table);
}

#[test]
fn where_an_upgrade_stands() {
    let to = version("3.6.16");
    let change = DirectiveChange::Upgrade {
        to,
        pause_after: None,
    };
    let order = register(&change);
    let mut seen = with_versions(&["3.6.16"], "3.5.35");
    each(&mut seen, &|status| status.steering.directives = order.clone());
    let progress = |seen: &AdminStatus| upgrade_progress(seen, &order, Target::Version(to));
    let waits = |text: &str, trouble: Option<Trouble>| UpgradeProgress::Waits(text.to_owned(), trouble);
    assert_eq!(
        progress(&seen),
        waits("0 with etcd 3.6.16; to come: n1, n2, n3", None)
    );
    let peer = |seen: &mut AdminStatus, node: &str, change: &dyn Fn(&mut NodeStatus)| {
        if let Some(Fact::Known(peer)) = seen.peers.get_mut(&name(node)) {
            change(peer);
        }
    };
    let mut held = seen.clone();
    peer(&mut held, "n2", &|peer| {
        peer.version_trouble = Some("keys of v2".to_owned());
    });
    let refuses = Trouble::Refuses(name("n2"), "keys of v2".to_owned());
    assert_eq!(
        progress(&held),
        waits(
            "0 with etcd 3.6.16; to come: n1, n2, n3; on n2: keys of v2",
            Some(refuses)
        )
    );
    each(&mut held, &|status| {
        status.steering.directives.paused = register(&DirectiveChange::Pause).paused;
    });
    assert!(
        matches!(progress(&held), UpgradeProgress::Waits(_, None)),
        "a pause holds it back"
    );
    peer(&mut seen, "n3", &|peer| {
        peer.assignment.as_mut().unwrap().etcd_version = Some(to);
    });
    assert_eq!(
        progress(&seen),
        waits(
            "0 with etcd 3.6.16; to come: n1, n2, n3",
            Some(Trouble::NotRestarted(name("n3")))
        )
    );
    peer(&mut seen, "n3", &|peer| {
        peer.assignment.as_mut().unwrap().etcd_version = None;
    });
    peer(&mut seen, "n2", &|peer| {
        peer.etcd = Fact::Absent;
        peer.assignment.as_mut().unwrap().etcd_version = Some(to);
    });
    assert_eq!(
        progress(&seen),
        waits(
            "0 with etcd 3.6.16; not serving: n2; to come: n1, n3",
            Some(Trouble::NotServing(name("n2")))
        )
    );
    peer(&mut seen, "n2", &|peer| {
        peer.etcd = fixture_etcd();
        runs_version(peer, "3.6.16");
    });
    assert_eq!(
        progress(&seen),
        waits("1 with etcd 3.6.16; to come: n1, n3", None)
    );
    each(&mut seen, &|status| {
        runs_version(status, "3.6.16");
        let Fact::Known(etcd) = &mut status.etcd else {
            return;
        };
        etcd.storage_version = Some(version("3.5.0"));
    });
    assert_eq!(
        progress(&seen),
        waits("0 with etcd 3.6.16; etcd converts its data: n1, n2, n3", None)
    );
    each(&mut seen, &|status| {
        let Fact::Known(etcd) = &mut status.etcd else {
            return;
        };
        etcd.storage_version = Some(version("3.6.0"));
    });
    assert_eq!(progress(&seen), UpgradeProgress::Done);
    let mut silent = seen.clone();
    silent
        .peers
        .insert(name("n3"), Fact::Unreachable("timed out".into()));
    let last = waits(
        "2 with etcd 3.6.16; not serving: n3",
        Some(Trouble::Silent(name("n3"))),
    );
    assert_eq!(progress(&silent), last);
    assert!(upgrade::all_known(&seen).is_ok());
    let refused = upgrade::all_known(&silent).unwrap_err().to_string();
    assert!(refused.contains("no answer from n3"), "{refused}");
    // An agent that was just started, and whose peers have no list yet.
    each(&mut silent, &|status| status.members = Fact::Absent);
    assert_eq!(progress(&silent), last);
    assert!(upgrade::all_known(&silent).is_err());
    let cancelled = order
        .after(&DirectiveChange::CancelUpgrade, &name("n2"), NOW)
        .unwrap();
    seen.node.steering.directives = cancelled;
    assert!(matches!(progress(&seen), UpgradeProgress::Ended(_)));
}

/// A node has returned to the package's etcd once it runs that version, and has it assigned for its next start.
#[test]
fn where_the_way_to_the_package_stands() {
    let selected = register(&DirectiveChange::Upgrade {
        to: version("3.5.40"),
        pause_after: None,
    });
    let order = selected
        .after(&DirectiveChange::FollowPackage, &name("n1"), NOW)
        .unwrap();
    let mut seen = with_versions(&["3.5.40"], "3.5.40");
    each(&mut seen, &|status| {
        status.steering.directives = order.clone();
        status.assignment.as_mut().unwrap().etcd_version = Some(version("3.5.40"));
        status.etcd_binaries.as_mut().unwrap().base = Some(version("3.5.40"));
    });
    let progress = |seen: &AdminStatus| upgrade_progress(seen, &order, Target::Package);
    let waits = |text: &str| UpgradeProgress::Waits(text.to_owned(), None);
    let all = "0 with the package's etcd; to come: n1, n2, n3";
    assert_eq!(progress(&seen), waits(all), "the same version, from elsewhere");
    each(&mut seen, &|status| {
        status.assignment.as_mut().unwrap().etcd_version = None;
    });
    assert_eq!(progress(&seen), UpgradeProgress::Done);
    let Some(Fact::Known(n2)) = seen.peers.get_mut(&name("n2")) else {
        panic!()
    };
    n2.etcd_binaries.as_mut().unwrap().base = Some(version("3.5.44"));
    let given = Some(Trouble::NotRestarted(name("n2")));
    let text = "2 with the package's etcd; to come: n2".to_owned();
    assert_eq!(progress(&seen), UpgradeProgress::Waits(text, given));
}

/// A downgrade ends if etcd does not convert its data while all members serve. An upgrade needs no conversion.
#[test]
fn a_downgrade_waits_for_etcd_to_convert_its_data() {
    let to = version("3.5.35");
    let table: [(&str, bool, Option<&str>, bool, bool); 7] = [
        ("3.6.0", true, None, false, true),
        ("", true, None, false, true),
        ("3.5.0", true, None, false, false),
        ("3.6.0", false, None, false, false),
        ("3.6.0", true, Some("down"), false, false),
        ("3.6.0", true, Some("silent"), false, false),
        ("3.6.0", true, None, true, false),
    ];
    for (stored, downgrade, fault, paused, expected) in table {
        let change = if downgrade {
            DirectiveChange::Downgrade { to }
        } else {
            DirectiveChange::Upgrade {
                to,
                pause_after: None,
            }
        };
        let mut order = register(&change);
        if paused {
            order = order.after(&DirectiveChange::Pause, &name("n1"), NOW).unwrap();
        }
        let mut seen = with_versions(&["3.5.35"], "3.6.16");
        each(&mut seen, &|status| {
            status.steering.directives = order.clone();
            if let Fact::Known(etcd) = &mut status.etcd {
                etcd.storage_version = stored.parse().ok();
            }
        });
        match (fault, seen.peers.get_mut(&name("n3")).unwrap()) {
            (Some("down"), Fact::Known(peer)) => peer.etcd = Fact::Absent,
            (Some(_), peer) => *peer = Fact::Unreachable("timed out".into()),
            _ => {}
        }
        let progress = upgrade_progress(&seen, &order, Target::Version(to));
        let UpgradeProgress::Waits(text, trouble) = progress else {
            panic!("{progress:?}")
        };
        let found = trouble == Some(Trouble::NotConverting);
        assert_eq!(found, expected, "{stored} {downgrade} {fault:?} {paused}: {text}");
    }
}
