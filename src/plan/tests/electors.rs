//! The votes of the electorate: how a new memory regains its vote, and what is reported if an order lacks
//! votes.

use std::collections::BTreeSet;

use super::steering::pause;
use super::*;

const BACKUP: &str = "2026-01-01T00:00:00Z-000001";

fn store(genesis: Option<Genesis>) -> Fact<StoreView> {
    Fact::Known(store_view(genesis, None))
}

/// All hosts were lost, with the agents' state. They know of epoch 1 only from the shared store.
fn lost_site(me: usize) -> Observation {
    let mut obs = fresh(me, 3, 3);
    obs.spec.store_shared = true;
    let mut reported = genesis(&obs.spec, 3, 1, Origin::Empty);
    for incarnation in reported.electorate.values_mut() {
        *incarnation = Incarnation::new("f".repeat(32)).unwrap();
    }
    obs.store = store(Some(reported.clone()));
    obs.elector.enquired.clear();
    obs.newest_epoch = Epoch(1);
    let learn = |status: &mut NodeStatus| {
        status.eligible = false;
        status.newest_epoch = Epoch(1);
        status.genesis = Some(reported.clone());
    };
    learn(&mut obs.me);
    for i in (0..3).filter(|i| *i != me) {
        learn(peer(&mut obs, i));
    }
    obs.elector.eligible = false;
    obs
}

/// The agent of a serving member was reinstalled, and the member has kept its data.
fn reinstalled(me: usize) -> Observation {
    let mut obs = healthy(me);
    obs.elector.eligible = false;
    obs.elector.enquired.clear();
    obs.me.eligible = false;
    obs
}

fn restore(without: &[usize]) -> OperatorRequest {
    OperatorRequest::Restore {
        backup: BackupId::new(BACKUP).unwrap(),
        without: without.iter().map(|i| name(*i)).collect(),
        replace: None,
        etcd: None,
        above: Some(Epoch(1)),
        asked: UnixMs::default(),
    }
}

fn silence(obs: &mut Observation, i: usize) {
    obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
}

#[test]
fn c14_a_new_memory_enquires_whatever_the_epoch() {
    type Change = fn(&mut Observation);
    let enquires = Action::Enquire {
        without: BTreeSet::new(),
    };
    let rows: Vec<(&str, Observation, Change, bool)> = vec![
        ("a site is lost, the store is not", lost_site(1), |_| {}, true),
        (
            "the others are silent",
            lost_site(1),
            |o| (0..3).filter(|i| *i != 1).for_each(|i| silence(o, i)),
            true,
        ),
        (
            "so is the store",
            lost_site(1),
            |o| {
                o.store = Fact::Unreachable("timed out".into());
                silence(o, 2);
            },
            false,
        ),
        ("a member of a living cluster", reinstalled(1), |_| {}, true),
        ("during a pause", reinstalled(1), pause, true),
        ("one elector is silent", reinstalled(1), |o| silence(o, 2), false),
        (
            "a store of this node alone vouches for nothing",
            reinstalled(1),
            |o| {
                o.store = store(None);
                silence(o, 2);
            },
            false,
        ),
        (
            "too many have forgotten",
            reinstalled(1),
            |o| {
                o.elector.superseded = [name(1), name(2)].into();
            },
            false,
        ),
        (
            "it votes already",
            reinstalled(1),
            |o| o.elector.eligible = true,
            false,
        ),
    ];
    for (what, mut obs, change, expected) in rows {
        change(&mut obs);
        let action = decide(&obs).action.filter(|action| *action == enquires);
        assert_eq!(action.is_some(), expected, "{what}");
    }
}

/// Two nodes were added to the three that opened epoch 1, and the agent of n1 was reinstalled.
#[test]
fn t05_memories_lost_count_against_the_electors_of_the_newest_epoch() {
    // The nodes that have lost their memory, and whether asking the others is enough.
    for (lost, enough) in [([0, 1], false), ([0, 3], true), ([3, 4], true)] {
        let mut obs = reinstalled(0);
        let wider = fresh(0, 5, 3);
        obs.spec.nodes = wider.spec.nodes;
        for i in [3, 4] {
            obs.peers.insert(name(i), wider.peers[&name(i)].clone());
        }
        let mut opened = obs.me.genesis.clone().unwrap();
        opened.token = crate::model::token_of(&opened.cluster, Epoch(1), 7, opened.electorate.keys());
        for i in [1, 2] {
            peer(&mut obs, i).genesis = Some(opened.clone());
        }
        obs.me.genesis = Some(opened);
        obs.elector.enquired = (1..5).map(name).collect();
        obs.elector.superseded = lost.map(name).into();
        let decision = decide(&obs);
        let asks = matches!(decision.action, Some(Action::Enquire { .. }));
        let said = decision.reasons.iter().any(|r| r.code == "memories-lost");
        assert_eq!((asks, said), (enough, !enough), "{lost:?}: {decision:?}");
    }
}

#[test]
fn c14_what_a_new_memory_waits_for_is_said_once() {
    let said = |obs: &Observation, code: &str| {
        let reasons = decide(obs).reasons.into_iter();
        let texts: Vec<String> = reasons.filter(|r| r.code == code).map(|r| r.text).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.concat()
    };
    let mut obs = reinstalled(1);
    obs.elector.enquired = [name(0)].into();
    silence(&mut obs, 2);
    let text = said(&obs, "new-memory");
    assert!(
        text.contains("an answer from n3 (") && text.contains("restore BACKUP --without"),
        "{text}"
    );
    obs.requests = vec![restore(&[])];
    said(&obs, "new-memory");
    let mut obs = reinstalled(1);
    obs.elector.enquired = [name(0), name(2)].into();
    obs.elector.superseded = [name(1), name(2)].into();
    let text = said(&obs, "memories-lost");
    assert!(text.starts_with("n2 and n3 have lost"), "{text}");
}

#[test]
fn c14_an_enquiry_holds_nothing_up_and_is_tried_ever_later() {
    let mut obs = reinstalled(0);
    lose_data(peer(&mut obs, 2));
    assert_eq!(action(&obs), Some("remove-member"));
    let obs = reinstalled(1);
    let failed = |ago: u64| Memory {
        failures: [(ActionKind::Enquire, (9, SteadyMs(obs.steady.0 - ago)))].into(),
        ..Memory::default()
    };
    assert_eq!(plan(&obs, &failed(7000)).action, None);
    let again = plan(&obs, &failed(10_000)).action;
    assert!(matches!(again, Some(Action::Enquire { .. })), "{again:?}");
}

#[test]
fn c14_an_order_that_lacks_votes_says_whose_and_what_helps() {
    let mut obs = lost_site(0);
    obs.elector.eligible = true;
    obs.me.eligible = true;
    obs.requests = vec![restore(&[])];
    silence(&mut obs, 2);
    let decision = decide(&obs);
    let reason = decision
        .reasons
        .iter()
        .find(|r| r.code == "votes-missing")
        .unwrap();
    for part in [
        "the votes of 2 of 3 electors, and n1 can vote",
        "the memory of n2 is new",
        "n3 does not answer: start its agent",
    ] {
        assert!(reason.text.contains(part), "{part}: {}", reason.text);
    }
    assert!(
        decision.order.unwrap().contains(&reason.text),
        "the person who waits sees the reason"
    );

    // An agent's answer to the last attempt is reported too.
    let memory = Memory {
        failures: [(ActionKind::Propose, (3, obs.steady))].into(),
        errors: [(ActionKind::Propose, "n2: its memory is new".to_owned())].into(),
        ..Memory::default()
    };
    obs.fetched = Some(BackupId::new(BACKUP).unwrap());
    let order = plan(&obs, &memory).order.unwrap();
    assert!(
        order.contains("the last try to open epoch 2 failed: n2: its memory is new"),
        "{order}"
    );

    peer(&mut obs, 1).eligible = true;
    assert!(!has(&obs, "votes-missing"), "two of three are enough");
    let mut other = obs.clone();
    peer(&mut other, 1).electorate_digest = "other".into();
    let text = decide(&other).order.unwrap();
    assert!(text.contains("n2 has another cluster.nodes"), "{text}");
    obs.requests.clear();
    assert_eq!(decide(&obs).order, None);
}

/// Three new hosts, n1 to n3, with the store of a cluster whose epoch these electors opened. All three can
/// vote.
fn other_names(former: &[&str]) -> Observation {
    let mut obs = lost_site(0);
    let mut reported = obs.me.genesis.clone().unwrap();
    let fresh = Incarnation::new("f".repeat(32)).unwrap();
    let former = former.iter().map(|name| NodeName::new(*name).unwrap());
    reported.electorate = former.map(|name| (name, fresh.clone())).collect();
    let url = |name: &NodeName| vec![format!("http://{name}:2380")];
    reported.members = reported
        .electorate
        .keys()
        .map(|name| (name.clone(), url(name)))
        .collect();
    reported.cluster_id = cluster_id_of(&reported.members, &reported.token);
    obs.store = store(Some(reported.clone()));
    let learn = |status: &mut NodeStatus| {
        status.eligible = true;
        status.genesis = Some(reported.clone());
    };
    learn(&mut obs.me);
    for i in 1..3 {
        learn(peer(&mut obs, i));
    }
    obs.elector.eligible = true;
    obs.fetched = Some(BackupId::new(BACKUP).unwrap());
    obs
}

fn ordered(obs: &Observation, without: &[&str], replace: Option<&str>) -> Option<Action> {
    let mut obs = obs.clone();
    obs.requests = vec![OperatorRequest::Restore {
        backup: BackupId::new(BACKUP).unwrap(),
        without: without.iter().map(|name| NodeName::new(*name).unwrap()).collect(),
        replace: replace.map(|name| ClusterName::new(name).unwrap()),
        etcd: None,
        above: Some(Epoch(1)),
        asked: UnixMs::default(),
    }];
    decide(&obs).action
}

#[test]
fn c15_a_cluster_is_restored_onto_hosts_with_other_names_on_a_persons_word() {
    // The former electors, the two options of the order, and the electors that count as permanently lost.
    type Row<'a> = (&'a [&'a str], &'a [&'a str], Option<&'a str>, &'a [&'a str]);
    let all = ["a", "b", "c"];
    let rows: [Row<'_>; 6] = [
        (&all, &all, None, &all),
        (&all, &[], Some("prod"), &all),
        (&all, &["a"], Some("prod"), &all),
        (&["b", "c", "n1"], &["b", "c"], None, &["b", "c"]),
        (&["b", "c", "n1"], &[], Some("prod"), &["b", "c"]),
        (&["c", "n1", "n2"], &[], None, &[]),
    ];
    for (former, without, replace, expected) in rows {
        let Some(Action::Propose { genesis, gone, .. }) = ordered(&other_names(former), without, replace)
        else {
            panic!("{former:?}, {without:?}, {replace:?}: no proposal")
        };
        let gone: Vec<&str> = gone.iter().map(NodeName::as_str).collect();
        assert_eq!(gone, expected, "{former:?}, {without:?}, {replace:?}");
        assert_eq!(genesis.epoch, Epoch(2));
        assert!(genesis.electorate.keys().eq([name(0), name(1), name(2)].iter()));
    }
}

#[test]
fn c15_without_that_word_it_is_refused_at_once_with_what_is_missing() {
    let refused =
        |obs: &Observation, without: &[&str], replace: Option<&str>| match ordered(obs, without, replace) {
            Some(Action::Answer {
                done: false, message, ..
            }) => message,
            other => panic!("{other:?}"),
        };
    let mut obs = other_names(&["a", "b", "c"]);
    let text = refused(&obs, &[], None);
    for part in [
        "epoch 1 of prod was opened by a, b and c",
        "does not name a, b and c",
        "`--without a --without b --without c`",
        "`--replace-electorate prod`",
        "Nothing was changed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = refused(&obs, &["a"], None);
    assert!(text.contains("`--without b --without c`"), "{text}");
    let text = refused(&obs, &[], Some("other"));
    assert!(text.contains("says other, and this is cluster prod"), "{text}");
    // The genesis in the store counts even before the node has learned it.
    obs.me.genesis = None;
    obs.newest_epoch = Epoch(0);
    for i in 1..3 {
        peer(&mut obs, i).genesis = None;
    }
    assert!(!matches!(ordered(&obs, &[], None), Some(Action::Propose { .. })));
}

#[test]
fn c15_hosts_with_other_names_do_nothing_by_themselves_and_say_why() {
    let obs = other_names(&["a", "b", "c"]);
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let reason = decision
        .reasons
        .iter()
        .find(|r| r.code == "other-electorate")
        .unwrap();
    assert!(reason.text.contains("belongs to a, b and c"), "{}", reason.text);
    assert!(!has(&lost_site(0), "other-electorate"));
}

/// The agent of n1 was reinstalled while n3 was silent, and the store has vouched for its new memory. Its former vote
/// holds orders back until n3 answers that there was none.
#[test]
fn a_former_vote_is_asked_about_again_when_all_answer() {
    let mut obs = healthy(0);
    obs.elector.may_have_voted = Epoch(2);
    obs.me.voted = Epoch(2);
    assert_eq!(action(&obs), Some("enquire"));
    let never = |what: &str, change: fn(&mut Observation)| {
        let mut obs = obs.clone();
        change(&mut obs);
        assert_ne!(action(&obs), Some("enquire"), "{what}");
    };
    never("n3 is silent", |obs| silence(obs, 2));
    never("n3 has voted", |obs| peer(obs, 2).voted = Epoch(2));
    never("n3 has a new memory", |obs| peer(obs, 2).eligible = false);
    never("n3 knows a later epoch", |obs| {
        peer(obs, 2).newest_epoch = Epoch(2);
    });
    never("that epoch is open", |obs| obs.newest_epoch = Epoch(2));
}
