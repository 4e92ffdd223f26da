//! Which node verifies a backup, and when.

use super::*;

/// The description, the change, and whether the backup is still verified.
type Row<'a> = (&'a str, &'a dyn Fn(&mut Observation), bool);

#[test]
fn s44_one_follower_verifies_the_newest_backup_once_in_each_interval() {
    let id = |n: u64| BackupId::new(format!("2026-03-01T12:00:00Z-{n:06}")).unwrap();
    let day = Duration::from_hours(24);
    // n1 leads, so n2 verifies, and neither n1 nor n3.
    let seen = |me: usize| {
        let mut obs = healthy(me);
        obs.now = UnixMs(obs.now.0 + 2 * u64::try_from(day.as_millis()).unwrap());
        obs.steady = SteadyMs(obs.now.0);
        obs.spec.backup.verify_interval = Some(day);
        obs.spec.backup.retention.enabled = false;
        obs.backups.increments.running = true;
        obs.spec.store_shared = true;
        obs.store = Fact::Known(StoreView {
            verify: VerifyView {
                last: None,
                oldest_backup: Some(UnixMs(0)),
            },
            ..store_view(
                obs.me.genesis.clone(),
                Some(BackupSummary {
                    id: id(9),
                    at: obs.now,
                    revision: Revision(1),
                    size_bytes: 1,
                }),
            )
        });
        obs
    };
    let verify = Some(Action::Verify { backup: id(9) });
    let acts: Vec<_> = (0..3).map(|me| decide(&seen(me)).action).collect();
    assert_eq!(acts, [None, verify.clone(), None]);
    let last = |o: &mut Observation, n: u64, at: UnixMs, problems: &[&str]| {
        let problems = problems.iter().map(ToString::to_string).collect();
        if let Fact::Known(view) = &mut o.store {
            view.verify.last = Some((id(n), Verified { at, problems }));
        }
    };
    let rows: [Row<'_>; 10] = [
        ("an older one, long ago", &|o| last(o, 8, UnixMs(5), &[]), true),
        (
            "an older one, by a clock that was ahead",
            &|o| last(o, 8, UnixMs(u64::MAX), &[]),
            true,
        ),
        (
            "an older one, just now",
            &|o| {
                let now = o.now;
                last(o, 8, now, &[]);
            },
            false,
        ),
        ("this one", &|o| last(o, 9, UnixMs(5), &[]), false),
        ("under way", &|o| o.backups.verify.running = true, false),
        (
            "failed just now",
            &|o| o.backups.verify = failed_once(o.steady),
            false,
        ),
        ("a backup is under way", &|o| o.backup.running = true, false),
        ("switched off", &|o| o.spec.backup.verify_interval = None, false),
        (
            "the store is silent",
            &|o| o.store = Fact::Unreachable("x".into()),
            false,
        ),
        (
            "the first backup is young",
            &|o| {
                let now = o.now;
                if let Fact::Known(view) = &mut o.store {
                    view.verify.oldest_backup = Some(now);
                }
            },
            false,
        ),
    ];
    for (what, change, wanted) in rows {
        let mut obs = seen(1);
        change(&mut obs);
        assert_eq!(decide(&obs).action.is_some(), wanted, "{what}");
        assert_eq!(has(&obs, "verify-due"), wanted, "{what}");
        assert_eq!(has(&obs, "verify-failed"), what == "failed just now", "{what}");
    }
    // A store that only this node uses is verified by this node, and a person may ask on any node.
    let mut own = seen(2);
    own.spec.store_shared = false;
    assert_eq!(decide(&own).action, verify);
    assert!(has(&own, "verify-due") && !has(&own, "verify-asked"));
    let mut asked = seen(0);
    asked.spec.backup.verify_interval = None;
    asked.requests = vec![OperatorRequest::Verify { backup: id(3) }];
    assert_eq!(decide(&asked).action, Some(Action::Verify { backup: id(3) }));
    assert!(has(&asked, "verify-asked") && !has(&asked, "verify-due"));
    let mut bad = seen(0);
    let now = bad.now;
    last(&mut bad, 8, now, &["it is cut off"]);
    assert!(decide(&bad).reasons.iter().any(|r| r.code == "backup-bad"));
}
