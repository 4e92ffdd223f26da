//! Whether a node may be stopped, one situation a row.

use super::restarts::wish;
use super::steering::{Spoil, pause};
use super::*;
use crate::plan::ok_to_stop;

pub(super) fn codes(reasons: &[Reason]) -> Vec<&str> {
    reasons.iter().map(|reason| reason.code.as_str()).collect()
}

pub(super) fn silence(obs: &mut Observation, i: usize) {
    obs.peers
        .insert(name(i), Fact::Unreachable("no route to host".into()));
}

pub(super) fn list(obs: &mut Observation) -> &mut MemberList {
    match &mut obs.me.members {
        Fact::Known(list) => list,
        other => panic!("{other:?}"),
    }
}

pub(super) fn etcd(status: &mut NodeStatus) -> &mut EtcdStatus {
    match &mut status.etcd {
        Fact::Known(etcd) => etcd,
        other => panic!("{other:?}"),
    }
}

pub(super) fn grant(status: &mut NodeStatus, to: usize) {
    status.steering.grant = Some(Grant {
        node: name(to),
        id: 1,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    });
}

pub(super) fn order(status: &mut NodeStatus, change: &DirectiveChange) {
    let directives = &mut status.steering.directives;
    *directives = directives.after(change, &name(1), UnixMs(1)).unwrap();
}

/// All members list this one as a learner.
pub(super) fn make_learner(obs: &mut Observation, i: usize) {
    let learns = |status: &mut NodeStatus| {
        if let Fact::Known(list) = &mut status.members {
            list.members[i].is_learner = true;
        }
    };
    learns(&mut obs.me);
    (1..3).for_each(|i| learns(peer(obs, i)));
    etcd(peer(obs, i)).is_learner = true;
}

/// Each row names the notes of a yes, and the node that is asked about.
#[test]
fn each_yes_has_its_notes() {
    let table: &[(&str, Spoil, usize, &[&str])] = &[
        ("all is well", |_| (), 2, &[]),
        ("the leader's node", |_| (), 0, &["leader-moves"]),
        ("a pause is no reason", pause, 2, &[]),
        (
            "a wish that a pause holds back",
            |obs| {
                wish(peer(obs, 1), None);
                pause(obs);
            },
            2,
            &[],
        ),
        (
            "the grant is the node's own",
            |obs| {
                grant(&mut obs.me, 2);
                wish(peer(obs, 2), Some(4));
                take_down(peer(obs, 2), ActiveState::Activating);
            },
            2,
            &["etcd-down"],
        ),
        (
            "the node's own etcd is down",
            |obs| take_down(peer(obs, 2), ActiveState::Failed),
            2,
            &["etcd-down"],
        ),
        (
            "the node's own etcd is down, and does not start with its certificate files",
            |obs| {
                take_down(peer(obs, 2), ActiveState::Failed);
                peer(obs, 2).tls_trouble = Some("[etcd.peer_tls]: the key is not there".into());
            },
            2,
            &["etcd-down", "tls-files-unusable"],
        ),
        (
            "another etcd could not start again, and is not stopped",
            |obs| peer(obs, 1).tls_trouble = Some("[etcd.peer_tls]: the key is not there".into()),
            2,
            &[],
        ),
        (
            "the node's own etcd does not answer",
            |obs| peer(obs, 2).etcd = Fact::Unreachable("timed out".into()),
            2,
            &["etcd-silent"],
        ),
    ];
    for (what, spoil, node, notes) in table {
        let mut obs = healthy(0);
        spoil(&mut obs);
        let verdict = ok_to_stop(&obs, &name(*node));
        assert!(verdict.ok, "{what}: {:?}", verdict.reasons);
        assert_eq!(codes(&verdict.notes), *notes, "{what}");
    }
}

#[test]
fn the_answer_is_the_same_wherever_it_is_asked() {
    for me in 0..3 {
        for node in 0..3 {
            let verdict = ok_to_stop(&healthy(me), &name(node));
            assert!(verdict.ok, "n{} at n{}: {verdict:?}", node + 1, me + 1);
            let left = verdict.left.unwrap();
            assert_eq!((left.voters, left.healthy, left.quorum), (3, 2, 2));
            assert!(left.further_faults.iter().all(|fault| !fault.tolerated));
            assert_eq!(left.further_faults.len(), 2);
        }
        let mut one_down = healthy(me);
        match me {
            1 => take_down(&mut one_down.me, ActiveState::Inactive),
            _ => take_down(peer(&mut one_down, 1), ActiveState::Inactive),
        }
        let verdict = ok_to_stop(&one_down, &name(2));
        let text = format!("{:?}", verdict.reasons);
        assert!(!verdict.ok && text.contains("n2"), "at n{}: {text}", me + 1);
        assert!(ok_to_stop(&one_down, &name(1)).ok, "n2 itself, at n{}", me + 1);
    }
}

#[test]
fn a_node_whose_etcd_could_not_start_again_is_not_stopped_wherever_that_is_asked() {
    for me in 0..3 {
        for node in 0..3 {
            let mut obs = healthy(me);
            let status = if me == node {
                &mut obs.me
            } else {
                peer(&mut obs, node)
            };
            status.tls_trouble = Some("[etcd.client_tls]: cannot use /crt: it is not there".into());
            let verdict = ok_to_stop(&obs, &name(node));
            assert_eq!(codes(&verdict.reasons), ["tls-files-unusable"], "{verdict:?}");
            let expected = format!(
                "etcd on n{} might not start again: [etcd.client_tls]: cannot use /crt: it is not there",
                node + 1
            );
            assert_eq!(verdict.reasons[0].text, expected);
            // What one node says of its files holds nobody else back.
            for other in (0..3).filter(|other| *other != node) {
                assert!(ok_to_stop(&obs, &name(other)).ok, "n{} at n{}", other + 1, me + 1);
            }
        }
    }
}

#[test]
fn a_liar_that_claims_to_lead_makes_no_yes() {
    // A spare has only the words of others. n2 claims to lead, in a newer term and with fewer voters.
    let mut obs = cluster(4, 3, 3);
    let (me, spare) = (obs.me.clone(), peer(&mut obs, 3).clone());
    obs.spec.node = name(3);
    obs.peers.remove(&name(3));
    obs.peers.insert(name(0), Fact::Known(me));
    obs.me = spare;
    assert!(ok_to_stop(&obs, &name(2)).ok);
    let liar = peer(&mut obs, 1);
    etcd(liar).leader = Some(etcd(liar).member_id);
    etcd(liar).term = RaftTerm(9);
    let verdict = ok_to_stop(&obs, &name(2));
    assert_eq!(codes(&verdict.reasons), ["no-leader"], "{verdict:?}");

    // The node of the real leader lists one voter too few: nobody becomes a spare by its word alone.
    let mut obs = healthy(1);
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members.pop();
    }
    let verdict = ok_to_stop(&obs, &name(2));
    assert_eq!(codes(&verdict.notes), ["spare"]);
    assert_eq!(codes(&verdict.reasons), ["members-unknown", "members-unknown"]);
}

#[test]
fn a_node_without_a_vote_costs_no_quorum() {
    let mut obs = cluster(4, 3, 3);
    take_down(peer(&mut obs, 1), ActiveState::Failed);
    let verdict = ok_to_stop(&obs, &name(3));
    assert!(verdict.ok, "{verdict:?}");
    assert_eq!(codes(&verdict.notes), ["spare"]);
    silence(&mut obs, 3);
    let verdict = ok_to_stop(&obs, &name(3));
    assert_eq!(
        codes(&verdict.notes),
        ["agent-silent", "spare"],
        "it has no member"
    );

    let mut obs = cluster(4, 3, 3);
    silence(&mut obs, 3);
    let verdict = ok_to_stop(&obs, &name(2));
    assert!(verdict.ok, "a silent spare is no reason: {verdict:?}");
    assert_eq!(codes(&verdict.notes), ["agent-silent"]);
    list(&mut obs).linearizable = false;
    assert!(!ok_to_stop(&obs, &name(3)).ok, "nobody knows that it has no vote");
}

/// `init` takes over an etcd with another name and peer URL, which it keeps until its next start.
#[test]
fn a_member_of_no_configured_node_makes_no_yes_where_it_may_be() {
    let mut obs = cluster(4, 3, 3);
    let member = &mut list(&mut obs).members[2];
    member.name = "default".to_owned();
    member.peer_urls = vec!["http://elsewhere:2380".to_owned()];
    let verdict = ok_to_stop(&obs, &name(2));
    assert!(!verdict.ok, "{verdict:?}");
    assert!(codes(&verdict.reasons).contains(&"unknown-member"), "{verdict:?}");
    let spare = ok_to_stop(&obs, &name(3));
    assert!(!codes(&spare.reasons).contains(&"unknown-member"), "{spare:?}");
    silence(&mut obs, 3);
    let silent = ok_to_stop(&obs, &name(3));
    assert!(codes(&silent.reasons).contains(&"unknown-member"), "{silent:?}");
}

#[test]
fn a_learner_may_be_stopped_unless_its_promotion_would_cost_quorum() {
    let mut obs = healthy(0);
    make_learner(&mut obs, 2);
    let verdict = ok_to_stop(&obs, &name(2));
    assert!(verdict.ok, "two voters are a quorum of three: {verdict:?}");
    assert_eq!(codes(&verdict.notes), ["learner-joins"]);
    take_down(peer(&mut obs, 1), ActiveState::Failed);
    let verdict = ok_to_stop(&obs, &name(2));
    assert_eq!(codes(&verdict.reasons), ["too-few-healthy"]);
}

#[test]
fn small_and_large_clusters() {
    let one = ok_to_stop(&cluster(1, 1, 1), &name(0));
    assert_eq!(codes(&one.reasons), ["only-voter"]);
    let two = ok_to_stop(&cluster(2, 2, 2), &name(1));
    assert_eq!(codes(&two.reasons), ["too-few-healthy"]);
    let five = ok_to_stop(&cluster(5, 5, 5), &name(4));
    let left = five.left.unwrap();
    assert!(five.ok && left.further_faults.iter().all(|fault| fault.tolerated));
    let mut no_spare = cluster(5, 5, 5);
    take_down(peer(&mut no_spare, 1), ActiveState::Failed);
    let verdict = ok_to_stop(&no_spare, &name(4));
    assert_eq!(
        codes(&verdict.reasons),
        ["etcd-down"],
        "quorum without spare health"
    );
    assert!(verdict.left.unwrap().has_quorum());
}
