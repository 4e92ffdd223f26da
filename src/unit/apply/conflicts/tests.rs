// Tables of one-line changes read better without statements.
#![allow(clippy::semicolon_if_nothing_returned)]

use std::collections::BTreeMap;

use super::*;
use crate::model::LoadState;
use crate::unit::loaded::LoadedUnit;

const FRAGMENT: &str = "/lib/systemd/system/etcd.service";
const OURS: &str = "/etc/systemd/system/etcd.service.d/90-etcd-agent.conf";
const LATER: &str = "/etc/systemd/system/etcd.service.d/99-site.conf";
const ENV: &str = "/var/lib/etcd-agent/etcd.env";
const DEFAULT: &str = "/etc/default/etcd";

/// Debian's unit with our drop-in.
fn debian() -> UnitView {
    let ours: BTreeMap<String, String> = [("ETCD_NAME", "n1"), ("ETCD_DATA_DIR", "/var/lib/etcd/default")]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    let env: Vec<String> = ours.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
    let mut view = UnitView {
        loaded: LoadedUnit {
            load_state: LoadState::Loaded,
            fragment_path: FRAGMENT.into(),
            drop_in_paths: vec![OURS.into()],
            user: "etcd".into(),
            environment: vec!["DAEMON_ARGS=".into(), "ETCD_NAME=host".into()],
            environment_files: vec![(DEFAULT.into(), true), (ENV.into(), false)],
            unset_environment: vec!["ETCD_CONFIG_FILE".into(), "ETCD_WAL_DIR".into()],
            exec_start: vec![vec!["/usr/bin/etcd".into(), "$DAEMON_ARGS".into()]],
            exec_start_pre: vec![vec!["/usr/bin/etcd-agent".into(), "gate".into()]],
            exec_stop: vec![vec!["/usr/bin/etcd-agent".into(), "gate".into(), "--stop".into()]],
            ..LoadedUnit::default()
        },
        texts: BTreeMap::new(),
        ours,
        env_file: ENV.into(),
        drop_in: OURS.into(),
        systemd: 257,
    };
    text(
        &mut view,
        FRAGMENT,
        "[Service]\nEnvironment=DAEMON_ARGS=\nEnvironment=ETCD_NAME=%H\nEnvironmentFile=-/etc/default/%p\nUser=etcd\nExecStart=/usr/bin/etcd $DAEMON_ARGS\n",
    );
    text(
        &mut view,
        OURS,
        "[Service]\nEnvironmentFile=/var/lib/etcd-agent/etcd.env\n",
    );
    text(&mut view, ENV, &env.join("\n"));
    text(&mut view, DEFAULT, "# nothing\n");
    view
}

fn text(view: &mut UnitView, path: &str, text: &str) {
    view.texts.insert(path.to_owned(), Ok(Some(text.to_owned())));
}

fn later(view: &mut UnitView, body: &str) {
    view.loaded.drop_in_paths.push(LATER.into());
    text(view, LATER, body);
}

fn exec(view: &mut UnitView, argv: &[&str]) {
    view.loaded.exec_start = vec![argv.iter().map(|arg| (*arg).to_owned()).collect()];
}

type Change = fn(&mut UnitView);

#[test]
fn what_does_not_win() {
    let table: Vec<(&str, Change)> = vec![
        ("Debian's unit", |_| {}),
        ("a hostile /etc/default/etcd", |v| {
            text(
                v,
                DEFAULT,
                "ETCD_NAME=evil\nETCD_DATA_DIR=/tmp/x\nETCD_CONFIG_FILE=/etc/etcd.yml\nETCD_WAL_DIR=/w\n",
            );
        }),
        ("no /etc/default/etcd", |v| {
            v.texts.insert(DEFAULT.into(), Ok(None));
        }),
        ("other settings of the operator's", |v| {
            text(v, DEFAULT, "ETCD_QUOTA_BACKEND_BYTES=1\n")
        }),
        ("a later Environment=", |v| {
            later(v, "[Service]\nEnvironment=ETCD_NAME=evil\n");
            v.loaded.environment.push("ETCD_NAME=evil".into());
        }),
        ("flags that are the operator's", |v| {
            exec(v, &["/usr/bin/etcd", "--log-level=debug", "--max-wals", "3"])
        }),
        ("a later file without our names", |v| {
            v.loaded.environment_files.push(("/etc/x".into(), true));
            text(v, "/etc/x", "GOGC=50\n");
        }),
        ("a later file that is not there", |v| {
            v.loaded.environment_files.push(("/etc/x".into(), true));
            v.texts.insert("/etc/x".into(), Ok(None));
        }),
        ("an allowed flag switched off", |v| {
            exec(v, &["/usr/bin/etcd", "--wal-dir="])
        }),
    ];
    for (name, change) in table {
        let mut view = debian();
        change(&mut view);
        assert_eq!(conflicts(&view), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_wins_is_named_with_file_and_line() {
    let table: Vec<(&str, Change, &str)> = vec![
        (
            "--config-file in ExecStart",
            |v| {
                exec(v, &["/usr/bin/etcd", "--config-file=/etc/etcd.yml"]);
            },
            "/lib/systemd/system/etcd.service:6: `--config-file=/etc/etcd.yml` makes etcd ignore",
        ),
        (
            "--config-file through DAEMON_ARGS",
            |v| {
                text(v, DEFAULT, "# x\nDAEMON_ARGS=\"--config-file=/etc/etcd.yml\"\n");
            },
            "/etc/default/etcd:2 (DAEMON_ARGS, used by ExecStart= at /lib/systemd/system/etcd.service:6): `--config-file=/etc/etcd.yml`",
        ),
        (
            "--config-file even of our own name",
            |v| exec(v, &["/usr/bin/etcd", "-config-file", "/x"]),
            "`--config-file=/x`",
        ),
        (
            "--name through a shell",
            |v| {
                exec(
                    v,
                    &["/bin/bash", "-c", "GOMAXPROCS=$(nproc) /usr/bin/etcd --name=x"],
                );
            },
            "the flag `--name=x` beats our ETCD_NAME=n1",
        ),
        (
            "--data-dir through ${VAR}",
            |v| {
                exec(v, &["/usr/bin/etcd", "--data-dir=${WHERE}"]);
                text(v, DEFAULT, "WHERE=/srv/x\n");
            },
            "/etc/default/etcd:1 (WHERE",
        ),
        (
            "--data-dir as two words",
            |v| exec(v, &["/usr/bin/etcd", "--data-dir", "/srv/x"]),
            "`--data-dir=/srv/x` beats",
        ),
        (
            "--wal-dir",
            |v| exec(v, &["/usr/bin/etcd", "--wal-dir=/w"]),
            "`--wal-dir=/w` is not allowed",
        ),
        (
            "ExecStart of a later drop-in",
            |v| {
                later(v, "[Service]\nExecStart=\nExecStart=/usr/bin/etcd --name=x\n");
                exec(v, &["/usr/bin/etcd", "--name=x"]);
            },
            "99-site.conf:3: the flag `--name=x`",
        ),
        (
            "EnvironmentFile= reset",
            |v| {
                later(v, "[Service]\nEnvironmentFile=\n");
                v.loaded.environment_files.clear();
            },
            "99-site.conf:2: `EnvironmentFile=` takes our environment file away",
        ),
        (
            "a later file with our name",
            |v| {
                later(v, "[Service]\nEnvironmentFile=-/etc/x\n");
                v.loaded.environment_files.push(("/etc/x".into(), true));
                text(v, "/etc/x", "A=1\nETCD_NAME=evil\n");
            },
            "/etc/x:2: ETCD_NAME=evil wins over ours, as /etc/systemd/system/etcd.service.d/99-site.conf:2",
        ),
        (
            "a later file that cannot be read",
            |v| {
                v.loaded.environment_files.push(("/etc/x".into(), true));
                v.texts.insert("/etc/x".into(), Err("Permission denied".into()));
            },
            "/etc/x is read after ours (a later drop-in) and cannot be checked",
        ),
        (
            "a later pattern",
            |v| v.loaded.environment_files.push(("/etc/x/*.env".into(), true)),
            "is a pattern",
        ),
        (
            "UnsetEnvironment= of ours",
            |v| {
                later(v, "[Service]\nUnsetEnvironment=FOO ETCD_NAME\n");
                v.loaded.unset_environment.push("ETCD_NAME".into());
            },
            "99-site.conf:2: `UnsetEnvironment=ETCD_NAME`",
        ),
        ("our drop-in is hidden", |v| v.loaded.drop_in_paths.clear(), ""),
        (
            "the gate is taken away",
            |v| {
                later(v, "[Service]\nExecStartPre=\n");
                v.loaded.exec_start_pre.clear();
            },
            "99-site.conf:2: `ExecStartPre=` takes the gate away",
        ),
        (
            "the stop's is taken away",
            |v| {
                later(v, "[Service]\nExecStop=\n");
                v.loaded.exec_stop.clear();
            },
            "99-site.conf:2: `ExecStop=` takes the gate away",
        ),
        (
            "another user",
            |v| v.loaded.user = "root".into(),
            "etcd runs as root",
        ),
        ("no user", |v| v.loaded.user.clear(), "etcd runs as root"),
        (
            "no ExecStart",
            |v| v.loaded.exec_start.clear(),
            "has no ExecStart",
        ),
        (
            "a later file with a quote in a word before our name",
            |v| {
                v.loaded.environment_files.push(("/etc/x".into(), true));
                text(v, "/etc/x", "NOTE=don't\nETCD_NAME=evil\n");
            },
            "/etc/x:2: ETCD_NAME=evil wins over ours",
        ),
        (
            "a pattern before ours, and flags from variables",
            |v| {
                v.loaded
                    .environment_files
                    .insert(0, ("/etc/x/*.env".into(), true))
            },
            "is a pattern and is not checked",
        ),
        (
            "our file holds something else",
            |v| text(v, ENV, "ETCD_NAME=n1\n"),
            "ETCD_DATA_DIR is set by nothing",
        ),
    ];
    for (name, change, says) in table {
        let mut view = debian();
        change(&mut view);
        if name == "our drop-in is hidden" {
            view.loaded.environment_files.pop();
        }
        let found = conflicts(&view);
        assert!(!found.is_empty(), "{name}");
        assert!(found.iter().any(|line| line.contains(says)), "{name}: {found:?}");
        assert!(found.iter().all(|line| !line.contains('\n')), "{name}");
    }
}

/// etcd exits at its start if a flag and its variable are both set, whatever their values (`SetFlagsFromEnv`
/// in etcd's `pkg/flags`).
#[test]
fn h03_a_flag_and_its_variable_are_reported_even_with_the_same_value() {
    let table: Vec<(&str, Change, &str)> = vec![
        (
            "our own value",
            |v| exec(v, &["/usr/bin/etcd", "--name", "n1"]),
            "/lib/systemd/system/etcd.service:6: the flag `--name=n1` says the same as our ETCD_NAME",
        ),
        (
            "our own variable",
            |v| exec(v, &["/usr/bin/etcd", "--data-dir=${ETCD_DATA_DIR}"]),
            "/var/lib/etcd-agent/etcd.env:1 (ETCD_DATA_DIR, used by ExecStart= at /lib/systemd/system/etcd.service:6)",
        ),
        (
            "EL's shell",
            |v| {
                exec(
                    v,
                    &[
                        "/bin/bash",
                        "-c",
                        "GOMAXPROCS=$(nproc) /usr/bin/etcd --name=\"${ETCD_NAME}\"",
                    ],
                );
            },
            "the flag `--name=n1` says the same as our ETCD_NAME",
        ),
        (
            "the operator's flag and the operator's variable",
            |v| {
                exec(v, &["/usr/bin/etcd", "--log-level=debug"]);
                text(v, DEFAULT, "# x\nETCD_LOG_LEVEL=debug\n");
            },
            "the flag `--log-level=debug` and ETCD_LOG_LEVEL at /etc/default/etcd:2 set the same",
        ),
    ];
    for (name, change, says) in table {
        let mut view = debian();
        change(&mut view);
        let found = conflicts(&view);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found.iter().all(|line| line.contains(says)), "{name}: {found:?}");
    }
}
