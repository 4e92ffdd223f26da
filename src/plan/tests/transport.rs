//! Moves between plain HTTP and TLS: each step, and whole moves while agents and etcds die between any two
//! steps.

use proptest::prelude::*;

use super::restarts::settled;
use super::transport_world::{World, configure, over, peer_of, transport};
use super::*;

#[test]
fn three_members_move_to_tls_and_back_in_two_rounds() {
    let mut world = World::new("");
    world.hosts[0].configured = "cdl";
    for round in 0..30 {
        world.look(round % 3);
    }
    let (first, second) = (world.hosts[0].runs, world.hosts[1].runs);
    assert_eq!((first, second), (over("d"), over("")), "the first round of one");
    let waits = plan(&world.observe(0), &Memory::default()).reasons;
    let waits: Vec<_> = waits
        .iter()
        .filter(|reason| reason.code == ReasonCode::TransportWaits)
        .collect();
    assert_eq!(waits.len(), 2, "clients and members: {waits:?}");
    assert!(
        waits.iter().all(|reason| reason.text.ends_with("n2, n3")),
        "{waits:?}"
    );
    for host in &mut world.hosts {
        host.configured = "cdl";
    }
    world.restarts = 0;
    world.settle("cdl");
    assert!(world.restarts <= 6, "{}", world.restarts);

    world.hosts[1].configured = "";
    for round in 0..30 {
        world.look(round % 3);
    }
    assert!(
        world.is("cdl"),
        "TLS stays while one node alone is configured without"
    );
    for host in &mut world.hosts {
        host.configured = "";
    }
    world.settle("");
}

#[test]
fn each_of_clients_and_members_moves_without_the_other() {
    for (from, to) in [
        ("", "c"),
        ("c", ""),
        ("", "dl"),
        ("dl", ""),
        ("c", "dl"),
        ("dl", "c"),
    ] {
        let mut world = World::new(from);
        for host in &mut world.hosts {
            host.configured = to;
        }
        world.settle(to);
    }
}

#[test]
fn a_listener_changes_only_under_a_grant_and_after_the_list() {
    let mut world = World::new("d");
    world.configure("dl");
    let mut obs = world.observe(1);
    assert!(obs.me.steering.wants_restart.is_some());
    assert_eq!(action(&obs), None, "no grant");
    let grant = Grant {
        node: name(1),
        id: 1,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    };
    world.hosts[0].grant = Some(grant.clone());
    obs = world.observe(1);
    assert_eq!(action(&obs), None, "not listed");
    assert!(has(&obs, "transport-switch"));
    let memory = Memory {
        grant: Some((grant, SteadyMs(1_000_000))),
        ..settled()
    };
    let lists = plan(&world.observe(0), &memory).action;
    let Some(Action::UpdateMember { node, peer_urls, .. }) = lists else {
        panic!("{lists:?}");
    };
    assert_eq!((node, peer_urls), (name(1), vec!["https://n2:2380".to_owned()]));
    world.listed[1] = true;
    obs = world.observe(1);
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("{:?}", decide(&obs));
    };
    assert!(assignment.transport.as_ref().unwrap().peer_listens);
    assert_eq!(assignment.initial_cluster[&name(1)], ["https://n2:2380"]);
    world.hosts[1].assignment = *assignment;
    assert_eq!(action(&world.observe(1)), Some("restart-etcd"));
}

#[test]
fn a_member_that_is_listed_otherwise_than_it_listens_goes_first_or_is_listed_back() {
    let mut world = World::new("d");
    world.configure("dl");
    world.listed[2] = true;
    let granted = plan(&world.observe(0), &settled()).memory.grant;
    assert_eq!(granted.unwrap().0.node, name(2), "before n2");
    let mut obs = world.observe(0);
    obs.me.transport.as_mut().unwrap().next = Some(over("d"));
    obs.me.steering.wants_restart = None;
    for i in 1..3 {
        let status = peer(&mut obs, i);
        status.steering.wants_restart = None;
        status.transport.as_mut().unwrap().next = Some(over("d"));
    }
    let back = plan(&obs, &settled()).action;
    let Some(Action::UpdateMember { node, peer_urls, .. }) = back else {
        panic!("{back:?}");
    };
    assert_eq!((node, peer_urls), (name(2), vec!["http://n3:2380".to_owned()]));
}

#[test]
fn a_restart_into_a_transport_that_another_member_cannot_reach_is_refused() {
    let obs = World::new("d").observe(0);
    let others = |view: Option<(&str, &str)>| {
        let mut status = peer_of(&obs, 1).clone();
        status.transport = view.map(|(runs, assigned)| TransportView {
            runs: Some(over(runs)),
            assigned: Some(over(assigned)),
            ..TransportView::default()
        });
        status
    };
    for (next, runs, other, fine) in [
        ("dl", "d", Some(("d", "d")), true),
        ("dl", "d", Some(("d", "")), false),
        ("dl", "d", Some(("", "d")), false),
        ("dl", "d", None, false),
        ("dl", "dl", None, true),
        ("", "d", Some(("d", "d")), true),
        ("", "d", Some(("dl", "d")), false),
        ("", "d", Some(("d", "dl")), false),
        ("", "", Some(("dl", "dl")), true),
    ] {
        let status = others(other);
        let objection = transport_objection(over(next), Some(over(runs)), [&status]);
        assert_eq!(objection.is_none(), fine, "{runs:?} to {next:?}, {other:?}");
    }
}

#[test]
fn a_node_is_added_over_tls_where_all_can_reach_it_and_not_without_certificates() {
    let add = |listed: bool, runs: &str, joiner: &str| {
        let mut obs = cluster(3, 2, 3);
        configure(&mut obs.spec, "dl");
        obs.spec_record.settled = Some(3);
        let view = |configured: &str, runs: &str| TransportView {
            configured: over(configured),
            assigned: Some(over(runs)),
            runs: Some(over(runs)),
            next: Some(over(runs)),
        };
        let scheme = if listed { "https" } else { "http" };
        if let Fact::Known(list) = &mut obs.me.members {
            for member in &mut list.members {
                member.peer_urls = vec![format!("{scheme}://{}:2380", member.name)];
            }
        }
        let assigned = obs.assignment.as_mut().unwrap();
        let own = if listed { "dl" } else { "d" };
        assigned.transport = Some(transport(own));
        assigned.settings_digest = obs.spec.settings_digest();
        obs.me.transport = Some(view("dl", own));
        peer(&mut obs, 1).transport = Some(view("", runs));
        peer(&mut obs, 2).transport = Some(view(joiner, ""));
        let code = has(&obs, "transport-differs");
        match decide(&obs).action {
            Some(Action::AddLearner { peer_urls, .. }) => peer_urls.join(","),
            _ if code => "refused".to_owned(),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(add(true, "dl", "dl"), "https://n3:2380");
    assert_eq!(add(true, "dl", ""), "refused");
    assert_eq!(add(false, "d", "dl"), "https://n3:2380");
    assert_eq!(add(false, "", "dl"), "http://n3:2380");
    assert_eq!(add(false, "d", ""), "http://n3:2380");
}

#[test]
fn a_cluster_is_formed_only_of_nodes_that_are_configured_alike() {
    let mut obs = fresh(0, 3, 3);
    configure(&mut obs.spec, "cdl");
    let view = |text: &str| TransportView {
        configured: over(text),
        ..TransportView::default()
    };
    for i in 1..3 {
        peer(&mut obs, i).transport = Some(view("cdl"));
    }
    assert!(!has(&obs, "transport-differs"));
    peer(&mut obs, 2).transport = Some(view("c"));
    assert!(has(&obs, "transport-differs"));
    let mut obs = obs.clone();
    obs.spec = spec(0, 3, 3);
    assert!(has(&obs, "transport-differs"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Agents lose their memory, etcds and hosts start at any time, and configurations change in any order.
    #[test]
    fn a_move_survives_deaths_between_any_two_steps(
        moments in prop::collection::vec((0u8..24, prop::option::weighted(0.05, 0usize..3)), 1..250),
        back in any::<bool>(),
    ) {
        let (from, to) = if back { ("cdl", "") } else { ("", "cdl") };
        let mut world = World::new(from);
        for (what, configured) in moments {
            if let Some(i) = configured {
                let host = &mut world.hosts[i];
                host.configured = if host.configured == from { to } else { from };
            }
            world.happen(what);
        }
        for host in &mut world.hosts {
            host.configured = to;
        }
        world.settle(to);
    }
}
