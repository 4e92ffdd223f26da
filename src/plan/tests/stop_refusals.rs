//! Why a node may not be stopped, one situation a row.

use super::restarts::wish;
use super::steering::{Spoil, pause};
use super::stop::{codes, etcd, grant, list, make_learner, order, silence};
use super::*;
use crate::plan::ok_to_stop;

/// Asked at n1, which leads: whether n3 may be stopped. Each row names the reasons of a no.
#[test]
fn each_refusal_has_its_reason() {
    let table: &[(&str, Spoil, &[&str])] = &[
        (
            "another voter is down",
            |obs| take_down(peer(obs, 1), ActiveState::Inactive),
            &["too-few-healthy", "etcd-down"],
        ),
        (
            "another voter's etcd does not answer",
            |obs| peer(obs, 1).etcd = Fact::Unreachable("timed out".into()),
            &["too-few-healthy", "etcd-silent"],
        ),
        (
            "the state of another voter's unit is unknown",
            |obs| peer(obs, 1).unit = Fact::Unreachable("no D-Bus".into()),
            &["too-few-healthy", "unit-unknown"],
        ),
        (
            "another voter sees no leader",
            |obs| etcd(peer(obs, 1)).leader = None,
            &["too-few-healthy", "no-leader"],
        ),
        (
            "another voter's etcd runs as somebody else",
            |obs| etcd(peer(obs, 1)).member_id = MemberId(99),
            &["too-few-healthy", "foreign-member"],
        ),
        (
            "another voter's agent gives no answer",
            |obs| silence(obs, 1),
            &["too-few-healthy", "agent-silent"],
        ),
        (
            "the node itself gives no answer",
            |obs| silence(obs, 2),
            &["agent-silent"],
        ),
        (
            "a member is on no configured node",
            |obs| {
                let stranger = Member {
                    id: MemberId(99),
                    name: "n9".into(),
                    peer_urls: vec!["http://n9:2380".into()],
                    client_urls: vec![],
                    is_learner: false,
                };
                list(obs).members.push(stranger.clone());
                if let Fact::Known(list) = &mut peer(obs, 1).members {
                    list.members.push(stranger);
                }
            },
            &["too-few-healthy", "unknown-member"],
        ),
        (
            "a voter follows another leader",
            |obs| etcd(peer(obs, 1)).term = RaftTerm(3),
            &["no-leader"],
        ),
        (
            "a voter lists other members",
            |obs| {
                let Fact::Known(list) = &mut peer(obs, 1).members else {
                    return;
                };
                list.members.pop();
            },
            &["members-unknown"],
        ),
        (
            "two that stay do not reach each other",
            |obs| {
                obs.me.silent_agents.insert(name(1));
            },
            &["agent-silent"],
        ),
        (
            "a voter that stays has not applied the log",
            |obs| {
                let own = etcd(&mut obs.me);
                (own.index, own.applied) = (6000, 6000);
            },
            &["member-behind"],
        ),
        (
            "a learner joins",
            |obs| make_learner(obs, 1),
            &["too-few-healthy", "learner-joins", "promote"],
        ),
        (
            "a restart is granted to another node",
            |obs| grant(&mut obs.me, 1),
            &["restarting"],
        ),
        (
            "a former coordinator has granted a restart",
            |obs| grant(peer(obs, 1), 1),
            &["restarting"],
        ),
        (
            "another etcd is to be restarted",
            |obs| wish(peer(obs, 1), None),
            &["restart-wanted"],
        ),
        (
            "a pause holds back no ordered restart",
            |obs| {
                wish(peer(obs, 1), Some(4));
                pause(obs);
            },
            &["restart-wanted"],
        ),
        (
            "its own etcd could not start again",
            |obs| peer(obs, 2).tls_trouble = Some("[etcd.peer_tls]: the key is not there".into()),
            &["tls-files-unusable"],
        ),
        (
            "it is a learner, and its etcd could not start again",
            |obs| {
                make_learner(obs, 2);
                peer(obs, 2).tls_trouble = Some("[etcd.peer_tls]: the key is not there".into());
            },
            &["tls-files-unusable"],
        ),
        (
            "another etcd is being stopped and could not start again",
            |obs| {
                let status = peer(obs, 1);
                status.unit = unit(ActiveState::Deactivating);
                status.steering.waits_to_stop = true;
                status.tls_trouble = Some("[etcd.peer_tls]: the key is not there".into());
            },
            &["restart-wanted"],
        ),
        (
            "a leader move was requested",
            |obs| {
                peer(obs, 2).steering.leader_ask = Some(LeaderAsk {
                    id: 3,
                    to: Some(name(1)),
                    from: None,
                });
            },
            &["leader-asked", "leader-asked"],
        ),
        (
            "a restore was ordered on another node",
            |obs| peer(obs, 1).steering.restoring = true,
            &["restoring"],
        ),
        (
            "an elector may have voted for another epoch, and the store does not answer",
            |obs| {
                peer(obs, 1).voted = Epoch(2);
                obs.spec.store_shared = true;
                obs.store = Fact::Unreachable("no answer".into());
            },
            &["epoch-opening"],
        ),
        (
            "a newer epoch is reported",
            |obs| obs.newest_epoch = Epoch(2),
            &["epoch-opening"],
        ),
        (
            "another member was ordered out",
            |obs| order(&mut obs.me, &DirectiveChange::Remove { node: name(1) }),
            &["ordered-out", "ordered-out"],
        ),
        (
            "the node was ordered out, which this agent does not know yet",
            |obs| order(peer(obs, 1), &DirectiveChange::Remove { node: name(2) }),
            &["ordered-out", "ordered-out"],
        ),
        (
            "a voter's address changes",
            |obs| {
                list(obs).members[1].peer_urls = vec!["http://old:2380".into()];
                let url = obs.spec.peer_url(&name(1));
                peer(obs, 1).peer_url = url;
            },
            &["address-changed"],
        ),
        (
            "there are more voters than wanted, and no backups",
            |obs| {
                obs.spec.size = 2;
                obs.spec.backup_interval = None;
            },
            &["shrink"],
        ),
        (
            "there are more voters than wanted, and a backup comes first",
            |obs| obs.spec.size = 2,
            &["backup-before-change"],
        ),
        (
            "no epoch is known",
            |obs| {
                obs.me.genesis = None;
            },
            &["no-epoch"],
        ),
        (
            "the epoch was only reported to this new memory",
            |obs| obs.elector.hearsay = true,
            &["no-epoch"],
        ),
        (
            "the list was not read through quorum",
            |obs| list(obs).linearizable = false,
            &["members-unknown"],
        ),
        (
            "the list could not be read",
            |obs| obs.me.members = Fact::Unreachable("timed out".into()),
            &["members-unknown"],
        ),
        (
            "nobody sees a leader",
            |obs| {
                etcd(&mut obs.me).leader = None;
                (1..3).for_each(|i| etcd(peer(obs, i)).leader = None);
            },
            &["no-leader"],
        ),
        (
            "this node is cut off",
            |obs| {
                etcd(&mut obs.me).leader = None;
                (1..3).for_each(|i| silence(obs, i));
            },
            &["no-leader", "agent-silent", "agent-silent"],
        ),
        (
            "two sources have another genesis",
            |obs| {
                let other = genesis(&obs.spec, 2, 1, Origin::Empty);
                (1..3).for_each(|i| peer(obs, i).genesis = Some(other.clone()));
            },
            &["two-geneses"],
        ),
    ];
    for (what, spoil, expected) in table {
        let mut obs = healthy(0);
        spoil(&mut obs);
        let verdict = ok_to_stop(&obs, &name(2));
        assert!(!verdict.ok, "{what}");
        assert_eq!(
            codes(&verdict.reasons),
            *expected,
            "{what}: {:?}",
            verdict.reasons
        );
    }
}
