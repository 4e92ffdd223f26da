#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;

const UNIT_FILE: &str = "/usr/lib/systemd/system/etcd.service";
/// Debian 13's etcd-server 3.5.16, in short.
const DEBIAN: &str = "[Unit]\nAfter=network.target\n[Service]\nEnvironment=DAEMON_ARGS=\nEnvironment=ETCD_NAME=%H\n\
    Environment=ETCD_DATA_DIR=/var/lib/etcd/default\nEnvironmentFile=-/etc/default/%p\n\
    ExecStart=/usr/bin/etcd $DAEMON_ARGS\n";
/// Fedora's etcd, in short.
const FEDORA: &str = "[Service]\nType=notify\nWorkingDirectory=/var/lib/etcd/\nEnvironmentFile=-/etc/etcd/etcd.conf\n\
    User=etcd\nExecStart=/bin/bash -c \"GOMAXPROCS=$(nproc) /usr/bin/etcd\"\n";
const FEDORA_CONF: &str =
    "#[Member]\n#ETCD_CORS=\"\"\nETCD_DATA_DIR=\"/var/lib/etcd/default.etcd\"\nETCD_NAME=\"default\"\n";
/// SUSE's etcd, in short. Its packages since 3.5.17 have the settings in `/etc/default/etcd`, and flags in
/// `/etc/sysconfig/etcd`.
const SUSE: &str = "[Unit]\nAfter=network.target\n[Service]\nProtectSystem=full\nType=notify\n\
    WorkingDirectory=/var/lib/etcd/\nEnvironmentFile=-/etc/sysconfig/etcd\nEnvironmentFile=-/etc/default/etcd\n\
    User=etcd\n# set GOMAXPROCS to number of processors\n\
    ExecStart=/bin/bash -c \"GOMAXPROCS=$(nproc) /usr/sbin/etcd $ETCD_OPTIONS\"\nRestart=on-failure\n";
const SUSE_CONF: &str =
    "# [member]\nETCD_NAME=default\nETCD_DATA_DIR=\"/var/lib/etcd/default.etcd\"\n#ETCD_WAL_DIR=\"\"\n";
const SUSE_OPTIONS: &str = "## Path:     Applications/etcd\nETCD_OPTIONS=\"\"\n";

/// Paths and texts.
type Files<'a> = &'a [(&'a str, &'a str)];

fn found(files: Files<'_>) -> Result<String, String> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let dir = data_dir(&Paths::below(root.path())).map(|dir| dir.display().to_string());
    dir.map_err(|text| text.replace(root.path().to_str().unwrap(), ""))
}

#[test]
fn the_data_directory_follows_the_unit_of_each_distribution() {
    let older_suse = SUSE.replace("EnvironmentFile=-/etc/default/etcd\n", "");
    let cases: &[(&str, Files<'_>, &str)] = &[
        ("no unit", &[], "/var/lib/etcd/default"),
        ("Debian", &[(UNIT_FILE, DEBIAN)], "/var/lib/etcd/default"),
        (
            "Debian, /etc/default/etcd",
            &[
                (UNIT_FILE, DEBIAN),
                ("/etc/default/etcd", "ETCD_DATA_DIR=/srv/etcd\n"),
            ],
            "/srv/etcd",
        ),
        (
            "Fedora",
            &[(UNIT_FILE, FEDORA), ("/etc/etcd/etcd.conf", FEDORA_CONF)],
            "/var/lib/etcd/default.etcd",
        ),
        (
            "Fedora without its file",
            &[(UNIT_FILE, FEDORA)],
            "/var/lib/etcd/default",
        ),
        (
            "SUSE",
            &[
                (UNIT_FILE, SUSE),
                ("/etc/sysconfig/etcd", SUSE_OPTIONS),
                ("/etc/default/etcd", SUSE_CONF),
            ],
            "/var/lib/etcd/default.etcd",
        ),
        (
            "SUSE, the settings in both files",
            &[
                (UNIT_FILE, SUSE),
                ("/etc/sysconfig/etcd", "ETCD_DATA_DIR=/no\n"),
                ("/etc/default/etcd", SUSE_CONF),
            ],
            "/var/lib/etcd/default.etcd",
        ),
        (
            "SUSE without its files",
            &[(UNIT_FILE, SUSE)],
            "/var/lib/etcd/default",
        ),
        (
            "SUSE before 3.5.17",
            &[(UNIT_FILE, &older_suse), ("/etc/sysconfig/etcd", SUSE_CONF)],
            "/var/lib/etcd/default.etcd",
        ),
        (
            "a unit of the administrator",
            &[
                (UNIT_FILE, DEBIAN),
                (
                    "/etc/systemd/system/etcd.service",
                    "[Service]\nEnvironment=\"ETCD_DATA_DIR=/a b\" X=1\n",
                ),
            ],
            "/a b",
        ),
        (
            "a drop-in; one in /etc hides one of the same name",
            &[
                (UNIT_FILE, DEBIAN),
                (
                    "/usr/lib/systemd/system/etcd.service.d/10-a.conf",
                    "[Service]\nEnvironment=ETCD_DATA_DIR=/no\n",
                ),
                (
                    "/etc/systemd/system/etcd.service.d/10-a.conf",
                    "[Service]\nEnvironment=ETCD_DATA_DIR=/yes\n",
                ),
                (
                    "/etc/systemd/system/etcd.service.d/20-b.txt",
                    "[Service]\nEnvironment=ETCD_DATA_DIR=/no\n",
                ),
            ],
            "/yes",
        ),
        (
            "a drop-in that takes all back",
            &[
                (UNIT_FILE, FEDORA),
                ("/etc/etcd/etcd.conf", FEDORA_CONF),
                (
                    "/etc/systemd/system/etcd.service.d/a.conf",
                    "[Service]\nEnvironmentFile=\n",
                ),
            ],
            "/var/lib/etcd/default",
        ),
        (
            "what the agent gave to etcd stays",
            &[
                (UNIT_FILE, FEDORA),
                ("/etc/etcd/etcd.conf", "ETCD_DATA_DIR=/elsewhere\n"),
                (
                    "/var/lib/etcd-agent/etcd.env",
                    "ETCD_DATA_DIR=\"/var/lib/etcd/default.etcd\"\n",
                ),
            ],
            "/var/lib/etcd/default.etcd",
        ),
    ];
    for (name, files, expected) in cases {
        assert_eq!(found(files).as_deref(), Ok(*expected), "{name}");
    }
}

#[test]
fn a_data_directory_that_is_unknown_is_not_taken_for_the_default() {
    let cases: &[(&str, Files<'_>, &str)] = &[
        (
            "a relative path",
            &[(UNIT_FILE, "[Service]\nEnvironment=ETCD_DATA_DIR=default.etcd\n")],
            "is not set, and /usr/lib/systemd/system/etcd.service has ETCD_DATA_DIR=default.etcd, not an absolute path: set it",
        ),
        (
            "a specifier",
            &[(
                UNIT_FILE,
                "[Service]\nEnvironment=ETCD_DATA_DIR=/var/lib/etcd/%H\n",
            )],
            "is not set, and /usr/lib/systemd/system/etcd.service has ETCD_DATA_DIR=/var/lib/etcd/%H, not an absolute path: set it",
        ),
        (
            "a file whose name depends on the host",
            &[(UNIT_FILE, "[Service]\nEnvironmentFile=-/etc/etcd/%H\n")],
            "is not set, and etcd.service reads -/etc/etcd/%H, a name that is not known here: set it",
        ),
        (
            "a file that cannot be read",
            &[(UNIT_FILE, FEDORA), ("/etc/etcd/etcd.conf/x", "")],
            "is not set, and /etc/etcd/etcd.conf, which may name etcd's data directory, cannot be read \
             (Is a directory (os error 21)): set it",
        ),
    ];
    for (name, files, expected) in cases {
        assert_eq!(found(files), Err((*expected).to_owned()), "{name}");
    }
}
