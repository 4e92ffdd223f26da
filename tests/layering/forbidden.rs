//! What the code of some rooms, or of all, must not contain.

use crate::sources::files;

/// The pure rooms.
const PURE: &[&str] = &["plan/", "genesis/", "model/"];
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "no runtime"),
    ("async ", "no waiting"),
    (".await", "no waiting"),
    ("futures::", "no waiting"),
    ("std::fs", "no disk"),
    ("std::net::Tcp", "no network"),
    ("std::net::Udp", "no network"),
    ("std::env", "no environment"),
    ("std::process", "no processes"),
    ("std::thread", "no threads"),
    ("Instant", "time is a field of the observation"),
    ("SystemTime", "time is a field of the observation"),
    ("rand::", "randomness is a field of the observation"),
    ("HashMap", "maps are ordered"),
    ("HashSet", "maps are ordered"),
    ("tracing::", "reasons are values; the loop logs them"),
    ("use tracing", "reasons are values; the loop logs them"),
    ("println!", "reasons are values"),
    ("unwrap()", "what cannot be is a halt"),
    ("panic!", "what cannot be is a halt"),
    ("unreachable!", "what cannot be is a halt"),
];

#[test]
fn the_pure_rooms_are_pure() {
    let mut wrong = Vec::new();
    for file in files() {
        if !PURE.iter().any(|room| file.path.starts_with(room)) {
            continue;
        }
        for (word, why) in IMPURE {
            if file.code.contains(word) {
                wrong.push(format!("src/{} says `{word}`: {why}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls across a port that change something.
const EFFECTS: &[&str] = &[
    ".serves_with(",
    ".save_",
    ".clear_gate(",
    ".close_gate(",
    ".learn(",
    ".start_etcd(",
    ".restart_etcd(",
    ".stop_etcd(",
    ".apply(",
    ".put(",
    ".delete(",
];

#[test]
fn observation_has_no_effects() {
    let files = files();
    let rooms: Vec<_> = files
        .iter()
        .filter(|file| file.path.starts_with("agent/observe/"))
        .collect();
    assert!(
        rooms.len() > 3,
        "only {} files of agent/observe/ were found",
        rooms.len()
    );
    for file in rooms {
        for effect in EFFECTS {
            assert!(
                !file.code.contains(effect),
                "src/{} has `{effect}`: observation asks, and `record` stores what follows",
                file.path
            );
        }
    }
}

#[test]
fn systemd_is_asked_over_d_bus_only() {
    for file in files() {
        for program in ["systemctl", "systemd-run", "journalctl", "busctl"] {
            for maker in ["Command::new", "Cmd::new"] {
                assert!(
                    !file.code.contains(&format!("{maker}(\"{program}")),
                    "src/{} runs {program}",
                    file.path
                );
            }
        }
        // The agent runs only these programs: etcdutl or etcdctl as the data directory's owner, and both of
        // them and etcd to verify a backup. Each runs in its own oneshot. A command runs ssh for another
        // host.
        let may_run = ["unit/data/tool.rs", "unit/verify/throwaway.rs", "cli/ssh.rs"];
        assert!(
            !file.code.contains("Command::new") || may_run.contains(&file.path.as_str()),
            "src/{} runs a program",
            file.path
        );
    }
}

/// What the packages and files of single distributions are called.
const OF_ONE_DISTRIBUTION: &[&str] = &[
    "etcd-client",
    "etcd-server",
    "openssh-client",
    "polkitd",
    "/etc/default/etcd",
    "/etc/etcd/etcd.conf",
    "/etc/sysconfig/etcd",
];

#[test]
fn a_message_names_the_packages_and_files_of_all_distributions() {
    let mut wrong = Vec::new();
    for file in files() {
        let code = &file.code;
        for word in OF_ONE_DISTRIBUTION {
            for (at, _) in code.match_indices(word) {
                let start = code[..at].rfind('"').map_or(0, |quote| quote + 1);
                let end = code[at..].find('"').map_or(code.len(), |quote| at + quote);
                let text = &code[start..end];
                let others = ["Debian", "Fedora", "SUSE"];
                if !others.iter().all(|name| text.contains(name)) {
                    wrong.push(format!(
                        "src/{} names `{word}` alone: name the program or the setting, and what Debian, Fedora and \
                         SUSE call it: \"{text}\"",
                        file.path
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
