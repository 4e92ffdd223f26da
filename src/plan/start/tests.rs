#![allow(clippy::unwrap_used)]

use super::*;
use crate::model::{Epoch, InitialState};

fn gate() -> GateState {
    GateState {
        generation: Generation(4),
        epoch: Epoch(2),
        newest_epoch: Epoch(2),
        voted: Epoch::default(),
        cluster_id: ClusterId(7),
        member_id: MemberId(9),
        data_dir: "/var/lib/etcd/default".into(),
        wal_dir: None,
        voters: 3,
        electors: 3,
        started_once: true,
        initial: Some(initial("token-2", InitialState::Existing)),
    }
}

fn initial(token: &str, state: InitialState) -> InitialSettings {
    InitialSettings {
        token: token.to_owned(),
        state,
    }
}

fn own() -> Log {
    Log {
        cluster_id: ClusterId(7),
        member_id: MemberId(9),
        remembers: true,
    }
}

fn known(change: impl FnOnce(&mut Known)) -> Known {
    let mut known = Known {
        gate: Ok(Some(gate())),
        assigned: true,
        cleared: None,
        initial: Some(initial("token-2", InitialState::Existing)),
        overridden: false,
        agent: Answer::Silent(ALONE_AFTER),
    };
    change(&mut known);
    known
}

fn with_gate(change: impl FnOnce(&mut GateState)) -> Known {
    let mut state = gate();
    change(&mut state);
    known(|k| k.gate = Ok(Some(state)))
}

#[test]
fn who_passes_and_who_waits() {
    let not_yet = || Answer::NotYet("electors n2, n3".to_owned());
    let table: Vec<(&str, Known, bool, &str)> = vec![
        ("alone, all is known", known(|_| {}), true, "no agent answers"),
        (
            "unmanaged",
            known(|k| {
                k.gate = Ok(None);
                k.assigned = false;
            }),
            true,
            "not managed",
        ),
        (
            "installed anew, and a later epoch than the first is known",
            known(|k| {
                k.gate = Ok(Some(GateState::of_nobody(Epoch(2))));
                k.assigned = false;
                k.agent = Answer::Clear;
            }),
            false,
            "nothing is assigned to this node yet, and epoch 2 is known",
        ),
        (
            "assigned without gate.json",
            known(|k| k.gate = Ok(None)),
            false,
            "no gate.json",
        ),
        (
            "garbage in gate.json",
            known(|k| k.gate = Err("gate.json: garbage".into())),
            false,
            "garbage",
        ),
        (
            "cleared",
            known(|k| {
                k.cleared = Some(Generation(4));
                k.agent = not_yet();
            }),
            true,
            "confirmed in this boot",
        ),
        (
            "cleared for a newer generation",
            known(|k| {
                k.cleared = Some(Generation(5));
                k.agent = not_yet();
            }),
            true,
            "confirmed",
        ),
        (
            "cleared for an older generation",
            known(|k| {
                k.cleared = Some(Generation(3));
                k.agent = not_yet();
            }),
            false,
            "electors n2",
        ),
        (
            "cleared, but gate.json is garbage",
            known(|k| {
                k.cleared = Some(Generation(9));
                k.gate = Err("garbage".into());
            }),
            false,
            "garbage",
        ),
        (
            "the agent says yes",
            known(|k| k.agent = Answer::Clear),
            true,
            "the agent",
        ),
        (
            "the agent says no, for long",
            known(|k| k.agent = not_yet()),
            false,
            "electors n2, n3",
        ),
        (
            "overridden",
            known(|k| {
                k.overridden = true;
                k.agent = not_yet();
            }),
            true,
            "overridden",
        ),
        (
            "silence is short",
            known(|k| k.agent = Answer::Silent(Duration::from_secs(59))),
            false,
            "deciding alone in 1 s",
        ),
        (
            "a newer epoch is known",
            with_gate(|g| g.newest_epoch = Epoch(3)),
            false,
            "epoch 3 is known",
        ),
        (
            "never started",
            with_gate(|g| g.started_once = false),
            false,
            "never started",
        ),
        (
            "three voters among five electors",
            with_gate(|g| g.electors = 5),
            false,
            "need not meet",
        ),
        (
            "three voters among four electors",
            with_gate(|g| g.electors = 4),
            true,
            "no agent answers",
        ),
        (
            "one voter, one elector",
            with_gate(|g| {
                g.voters = 1;
                g.electors = 1;
            }),
            true,
            "no agent answers",
        ),
        (
            "one voter among three electors",
            with_gate(|g| g.voters = 1),
            false,
            "need not meet",
        ),
        (
            "no voters known",
            with_gate(|g| g.voters = 0),
            false,
            "need not meet",
        ),
        (
            "another member's data",
            with_gate(|g| g.member_id = MemberId(1)),
            false,
            "holds member 9",
        ),
        (
            "another cluster's data",
            with_gate(|g| g.cluster_id = ClusterId(1)),
            false,
            "holds member 9",
        ),
        (
            "c01: cleared, never started, and the restore has not replaced the epoch before",
            {
                let mut known = with_gate(|g| {
                    g.started_once = false;
                    g.cluster_id = ClusterId(1);
                });
                known.cleared = Some(Generation(4));
                known.agent = Answer::Clear;
                known
            },
            false,
            "holds member 9 of cluster",
        ),
    ];
    for (name, known, passes, says) in table {
        match decide(&known, |_| Ok(Some(own()))) {
            Step::Pass(text) => assert!(passes && text.contains(says), "{name}: passes, {text}"),
            Step::Wait(text) => assert!(!passes && text.contains(says), "{name}: waits, {text}"),
        }
    }
}

/// etcd takes the member from an existing log, whatever its settings say. Seen on a host: systemd restarted
/// etcd while its data was being removed, and the empty log that etcd made was mistaken for no data. The new
/// member then never came up.
#[test]
fn what_is_in_the_directory_decides_first() {
    let empty = Log {
        remembers: false,
        ..own()
    };
    let other = Log {
        member_id: MemberId(1),
        ..empty
    };
    let unread = || Err("the log cannot be read".to_owned());
    let table = [
        ("has run, own log", true, Ok(Some(own())), Ok(())),
        ("has run, no log", true, Ok(None), Err("there is no log")),
        (
            "has run, empty log",
            true,
            Ok(Some(empty)),
            Err("remembers nothing"),
        ),
        ("has run, no answer", true, unread(), Err("cannot be read")),
        ("first start, nothing there", false, Ok(None), Ok(())),
        ("first start that was cut off", false, Ok(Some(empty)), Ok(())),
        (
            "first start, another's log",
            false,
            Ok(Some(other)),
            Err("holds member 1"),
        ),
        ("first start, no answer", false, unread(), Err("cannot be read")),
    ];
    for (name, started, found, passes) in table {
        let mut known = with_gate(|g| g.started_once = started);
        // Not even the agent's confirmation helps.
        (known.agent, known.cleared) = (Answer::Clear, Some(Generation(4)));
        match (decide(&known, |_| found.clone()), passes) {
            (Step::Pass(_), Ok(())) => {}
            (Step::Wait(text), Err(says)) => assert!(text.contains(says), "{name}: {text}"),
            (step, _) => panic!("{name}: {step:?}"),
        }
    }
}

/// `etcd-agent-apply.service` failed after a restore, and a person started etcd without data: its environment
/// file was still of the previous epoch.
#[test]
fn rule_1_an_etcd_without_data_starts_only_on_the_settings_of_its_assignment() {
    let table = [
        (
            "its own",
            Some(initial("token-2", InitialState::Existing)),
            Ok(()),
        ),
        (
            "another epoch's",
            Some(initial("token-1", InitialState::Existing)),
            Err("has initial-cluster-token token-1 with"),
        ),
        (
            "to form a new cluster",
            Some(initial("token-2", InitialState::New)),
            Err("initial-cluster-state new, expected"),
        ),
        ("none", None, Err("has no such setting, expected")),
    ];
    for (name, found, passes) in table {
        let mut known = with_gate(|g| g.started_once = false);
        (known.agent, known.cleared, known.initial) = (Answer::Clear, Some(Generation(4)), found);
        match (decide(&known, |_| Ok(None)), passes) {
            (Step::Pass(_), Ok(())) => {}
            (Step::Wait(text), Err(says)) => assert!(text.contains(says), "{name}: {text}"),
            (step, _) => panic!("{name}: {step:?}"),
        }
        // etcd reads these settings only when it has no data.
        known.gate = Ok(Some(gate()));
        assert!(
            matches!(decide(&known, |_| Ok(Some(own()))), Step::Pass(_)),
            "{name}: with data"
        );
    }
    let mut older = with_gate(|g| (g.started_once, g.initial) = (false, None));
    (older.agent, older.initial) = (Answer::Clear, None);
    assert!(
        matches!(decide(&older, |_| Ok(None)), Step::Pass(_)),
        "an older version wrote gate.json"
    );
}

#[test]
fn rule_1_a_gate_alone_holds_a_start_back_where_its_elector_has_accepted_a_later_epoch() {
    let own = |_: &GateState| Ok(Some(own()));
    for (voted, passes) in [(0, true), (2, true), (3, false)] {
        let alone = with_gate(|gate| gate.voted = Epoch(voted));
        let step = decide(&alone, own);
        assert_eq!(matches!(step, Step::Pass(_)), passes, "{voted}: {step:?}");
        let asked = Known {
            agent: Answer::Clear,
            ..alone
        };
        assert!(
            matches!(decide(&asked, own), Step::Pass(_)),
            "its agent knows more"
        );
    }
}

/// If the gate passes alone, any quorum of voters and any majority of electors share a node, whatever the
/// sizes.
#[test]
fn alone_only_where_quorums_meet() {
    for electors in 1..10_usize {
        for voters in 1..=electors {
            let known = with_gate(|g| (g.voters, g.electors) = (voters, electors));
            let passes = matches!(decide(&known, |_| Ok(Some(own()))), Step::Pass(_));
            // The voters are among the electors: the least overlap of a quorum with a majority.
            let overlap = (voters / 2 + 1 + electors / 2 + 1).saturating_sub(electors);
            assert_eq!(passes, overlap > 0, "{voters} voters, {electors} electors");
        }
    }
}
