//! Certificate files with which etcd cannot work: nothing restarts or stops a running etcd with them.

use super::restarts::{settled, wish};
use super::transport_world::{configure, transport};
use super::*;

/// What was found in the files of clients and members.
fn view(obs: &Observation, trouble: Option<&str>) -> TlsView {
    let own = obs.assignment.as_ref().unwrap().transport(&obs.spec.etcd);
    let configured = Transport::configured(&obs.spec.etcd);
    let find = |(serves, files): (TlsUse, &TlsFiles)| TlsFinding {
        serves,
        files: files.clone(),
        trouble: trouble
            .filter(|_| files.cert_file.starts_with("/bad"))
            .map(str::to_owned),
    };
    TlsView {
        unread: false,
        found: Fact::Known(own.files().chain(configured.files()).map(find).collect()),
        at: obs.steady,
    }
}

/// A member over TLS whose files for members are in `/bad` from now on.
fn with_other_files() -> Observation {
    let mut obs = healthy(1);
    configure(&mut obs.spec, "cdl");
    let assigned = obs.assignment.as_mut().unwrap();
    assigned.transport = Some(transport("cdl"));
    let other = |name: &str| std::path::Path::new("/bad").join(name);
    obs.spec.etcd.peer_tls = Some(TlsFiles {
        cert_file: other("crt"),
        key_file: other("key"),
        ca_file: other("ca"),
    });
    let over = Transport::configured(&obs.spec.etcd).over();
    obs.me.transport = Some(TransportView {
        configured: over,
        assigned: Some(over),
        runs: Some(over),
        next: Some(over),
    });
    for i in [0, 2] {
        peer(&mut obs, i).transport = obs.me.transport.clone();
    }
    obs
}

/// The files for members that the next start is assigned, if the assignment changes.
fn assigned_next(obs: &Observation) -> Option<std::path::PathBuf> {
    match decide(obs).action {
        Some(Action::Assign { assignment }) => Some(assignment.transport?.peer?.cert_file),
        _ => None,
    }
}

#[test]
fn other_files_are_assigned_only_once_etcd_can_work_with_them() {
    let mut obs = with_other_files();
    obs.assignment.as_mut().unwrap().settings_digest = "of before".to_owned();
    obs.tls = view(&obs, Some("the key is not there"));
    assert_eq!(
        assigned_next(&obs),
        Some("/peer/crt".into()),
        "the other settings are written, with the files of before"
    );
    assert!(has(&obs, "tls-files-unusable"));
    obs.tls = view(&obs, None);
    assert_eq!(assigned_next(&obs), Some("/bad/crt".into()));
    assert!(!has(&obs, "tls-files-unusable"));

    obs.tls = TlsView {
        unread: true,
        ..TlsView::default()
    };
    assert_eq!(
        assigned_next(&obs),
        Some("/peer/crt".into()),
        "nobody has read them"
    );
    take_down(&mut obs.me, ActiveState::Inactive);
    assert_eq!(
        assigned_next(&obs),
        Some("/bad/crt".into()),
        "what is down is started as it is configured"
    );
    obs.assignment.as_mut().unwrap().started = false;
    obs.tls = view(&obs, Some("the key is not there"));
    assert_eq!(assigned_next(&obs), Some("/bad/crt".into()), "it has never run");
}

#[test]
fn files_that_were_not_read_are_read_and_those_with_a_trouble_again() {
    let mut obs = with_other_files();
    let digest = obs.spec.settings_digest();
    obs.assignment.as_mut().unwrap().settings_digest = digest;
    obs.tls.unread = true;
    assert_eq!(action(&obs), Some("inspect-data"));
    let looked = |obs: &Observation| {
        let memory = Memory {
            looked_at: Some(obs.steady),
            ..Memory::default()
        };
        plan(obs, &memory).action
    };
    assert_eq!(looked(&obs), None, "a second later again");

    obs.tls = view(&obs, Some("the key is not there"));
    assert_eq!(action(&obs), None);
    obs.steady = SteadyMs(obs.steady.0 + 15_000);
    assert_eq!(action(&obs), Some("inspect-data"));

    obs.spec.etcd.peer_tls = transport("cdl").peer;
    let digest = obs.spec.settings_digest();
    obs.assignment.as_mut().unwrap().settings_digest = digest;
    obs.tls = view(&obs, None);
    obs.steady = SteadyMs(obs.steady.0 + 600_000);
    assert_eq!(action(&obs), None, "nothing is to be restarted");
    wish(&mut obs.me, None);
    assert_eq!(
        action(&obs),
        Some("inspect-data"),
        "a certificate may have expired"
    );
}

#[test]
fn no_restart_is_granted_or_carried_out_with_files_that_etcd_cannot_work_with() {
    let mut obs = healthy(0);
    wish(peer(&mut obs, 1), Some(3));
    let grant = plan(&obs, &settled()).memory.grant;
    assert_eq!(grant.unwrap().0.node, name(1));
    let held = peer(&mut obs, 1).steering.wants_restart.as_mut().unwrap();
    held.held = Some("[etcd.peer_tls]: the key is not there".to_owned());
    assert_eq!(plan(&obs, &settled()).memory.grant, None);
    let reasons = plan(&obs, &settled()).reasons;
    let reason = reasons
        .iter()
        .find(|reason| reason.code == ReasonCode::RestartWaits)
        .unwrap();
    assert_eq!(
        reason.text,
        "etcd on n2 is to be restarted, and keeps running: [etcd.peer_tls]: the key is not there"
    );
    wish(peer(&mut obs, 2), None);
    let grant = plan(&obs, &settled()).memory.grant;
    assert_eq!(grant.unwrap().0.node, name(2), "the others are restarted");

    let mut obs = healthy(1);
    wish(&mut obs.me, Some(3));
    peer(&mut obs, 0).steering.grant = Some(Grant {
        node: name(1),
        id: 1,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    });
    assert_eq!(action(&obs), Some("restart-etcd"));
    obs.me.steering.wants_restart.as_mut().unwrap().held = Some("x".to_owned());
    assert_eq!(action(&obs), None);
}

#[test]
fn a_restart_waits_for_its_own_files_alone() {
    let obs = with_other_files();
    let (own, other) = (transport("cdl"), Transport::configured(&obs.spec.etcd));
    let found = view(&obs, Some("the key is not there"));
    let objection = |view: &TlsView, next: &Transport, later: u64| {
        restart_objection(view, next, SteadyMs(obs.steady.0 + later))
    };
    assert_eq!(objection(&found, &own, 0), None);
    assert_eq!(
        objection(&found, &other, 0).as_deref(),
        Some("[etcd.peer_tls]: the key is not there")
    );
    assert!(objection(&found, &own, 600_000).unwrap().contains("read again"));
    let unread = TlsView {
        unread: true,
        ..TlsView::default()
    };
    assert!(objection(&unread, &own, 0).is_some());
    let reading = [(&found, &own), (&unread, &own), (&found, &other)];
    assert_eq!(
        reading.map(|(view, next)| nothing_found(view, next)),
        [true, true, false]
    );
    assert_eq!(objection(&unread, &Transport::default(), 0), None, "plain HTTP");
    assert_eq!(
        objection(&TlsView::default(), &own, 0),
        None,
        "nobody can read them"
    );
}

/// What is known of the files, the transport of the next start, and the objections to a stop, one for each
/// wish.
type FilesRow<'a> = (&'a str, &'a TlsView, &'a Transport, [Option<&'a str>; 4]);

#[test]
fn a_stop_is_held_for_files_that_were_found_bad_and_for_others_only_until_they_are_read() {
    let obs = with_other_files();
    let (own, bad) = (transport("cdl"), Transport::configured(&obs.spec.etcd));
    let found = view(&obs, Some("the key is not there"));
    let unread = TlsView {
        unread: true,
        ..TlsView::default()
    };
    let early = StopWish::Held(Duration::from_millis(4999));
    let late = StopWish::Held(Duration::from_secs(5));
    let read = Some("[etcd.client_tls]: the files of [etcd.client_tls] are read first, as etcd's user");
    let again = Some("its certificate files are read again first");
    let no_key = Some("[etcd.peer_tls]: the key is not there");
    let none = [None; 4];
    let table: [FilesRow<'_>; 4] = [
        ("good", &found, &own, none),
        ("bad", &found, &bad, [no_key; 4]),
        ("not read", &unread, &own, [read, read, read, None]),
        ("plain HTTP", &unread, &Transport::default(), none),
    ];
    let wishes = [StopWish::Nobody, StopWish::Waits, early, late];
    for (what, view, next, expected) in table {
        let said = wishes.map(|wish| stop_objection(view, next, obs.steady, wish));
        assert_eq!(said.each_ref().map(Option::as_deref), expected, "{what}");
    }
    let later = SteadyMs(obs.steady.0 + 600_000);
    let said = wishes.map(|wish| stop_objection(&found, &own, later, wish));
    assert_eq!(
        said.each_ref().map(Option::as_deref),
        [None, again, again, None],
        "read long ago"
    );
    let said = wishes.map(|wish| stop_objection(&TlsView::default(), &own, later, wish));
    assert_eq!(
        said.each_ref().map(Option::as_deref),
        none,
        "nobody can read them"
    );
}

#[test]
fn files_that_were_read_long_ago_are_read_again_before_a_stop() {
    let mut obs = with_other_files();
    obs.spec.etcd.peer_tls = transport("cdl").peer;
    let digest = obs.spec.settings_digest();
    obs.assignment.as_mut().unwrap().settings_digest = digest;
    obs.tls = view(&obs, None);
    let stops: [fn(&mut NodeStatus); 2] = [
        |me| me.steering.wants_reboot_lock = true,
        |me| {
            me.unit = unit(ActiveState::Deactivating);
            me.steering.waits_to_stop = true;
        },
    ];
    for stop in stops {
        let mut obs = obs.clone();
        stop(&mut obs.me);
        assert_eq!(action(&obs), None);
        obs.steady = SteadyMs(obs.steady.0 + 600_000);
        assert_eq!(action(&obs), Some("inspect-data"));
    }
}
