//! `--host NODE`: the same command on another node, over ssh.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Duration;

use super::exit::{Exit, Failure};
use super::ssh::{self, Ssh};
use crate::config;
use crate::model::{NodeName, Spec};
use crate::paths::Paths;

/// How long ssh may take to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Runs the command line of this process on that node, and returns its exit code. `None` if that is this
/// node: the command then runs here.
pub(super) fn run(paths: &Paths, host: &NodeName) -> Result<Option<u8>, Failure> {
    let words = words(std::env::args_os().skip(1))?;
    let spec = config::load(paths)?.map(|loaded| loaded.settings.spec);
    run_with(&Ssh::here(CONNECT), spec.as_ref(), host, &words)
}

fn run_with(
    ssh: &Ssh,
    spec: Option<&Spec>,
    host: &NodeName,
    words: &[String],
) -> Result<Option<u8>, Failure> {
    let spec = spec.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!("--host {host}: this host has no configuration, which would name the nodes and their addresses"),
        )
    })?;
    if *host == spec.node {
        return Ok(None);
    }
    let address = spec.nodes.get(host).ok_or_else(|| unknown(spec, host))?;
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let ended = ssh
        .command(terminal, address, words)
        .status()
        .map_err(|error| ssh.not_started(&error))?;
    if let Some(why) = ssh::failed(ended.code(), address) {
        return Err(Failure::new(Exit::Unreachable, format!("{host}: {why}")));
    }
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()))
}

fn unknown(spec: &Spec, host: &NodeName) -> Failure {
    let all: Vec<&str> = spec.nodes.keys().map(NodeName::as_str).collect();
    Failure::new(
        Exit::Usage,
        format!(
            "--host {host}: {host} is not a node of this cluster; its nodes are: {}",
            all.join(", ")
        ),
    )
}

/// The words of the command line without `--host`. What follows `--` belongs to another program.
fn words(all: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let (mut skip, mut rest) = (false, false);
    for word in all {
        let word = word.into_string().map_err(|word| {
            Failure::new(
                Exit::Usage,
                format!(
                    "{}: not UTF-8, which cannot be passed to another host",
                    word.display()
                ),
            )
        })?;
        rest |= word == "--";
        if std::mem::take(&mut skip) {
            continue;
        }
        if !rest && word == "--host" {
            skip = true;
        } else if rest || !word.starts_with("--host=") {
            words.push(word);
        }
    }
    Ok(words)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::model::testing;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    /// A program that notes its arguments, one a line, and ends with this code.
    fn fake(dir: &Path, code: u8) -> Ssh {
        let program = dir.join("ssh");
        let noted = dir.join("noted");
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >{}\nexit {code}\n",
            noted.display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Ssh {
            program,
            connect: CONNECT,
        }
    }

    #[test]
    fn the_command_runs_on_the_other_node_and_its_code_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let spec = testing::spec(&["n1", "n2", "n3"]);
        let words = ["status".to_owned(), "-o".to_owned(), "json".to_owned()];
        for code in [0, 4, 6, 7] {
            let ended = run_with(&fake(dir.path(), code), Some(&spec), &name("n2"), &words);
            assert_eq!(ended, Ok(Some(code)));
        }
        let noted = std::fs::read_to_string(dir.path().join("noted")).unwrap();
        let last: Vec<&str> = noted.lines().rev().take(3).collect();
        assert_eq!(
            last,
            ["etcd-agent status -o json", &spec.nodes[&name("n2")], "--"]
        );
    }

    #[test]
    fn what_keeps_it_from_running_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let spec = testing::spec(&["n1", "n2", "n3"]);
        let ended = |ssh: &Ssh, spec: Option<&Spec>, host| run_with(ssh, spec, &name(host), &[]).unwrap_err();
        let ssh = fake(dir.path(), 255);
        let silent = ended(&ssh, Some(&spec), "n2");
        assert_eq!(silent.exit, Exit::Unreachable);
        assert!(silent.text.contains("no connection to"), "{silent}");
        let lacks = ended(&fake(dir.path(), 127), Some(&spec), "n2");
        assert!(
            lacks.exit == Exit::Unreachable && lacks.text.contains("no etcd-agent"),
            "{lacks}"
        );
        let unknown = ended(&ssh, Some(&spec), "n9");
        assert_eq!(unknown.exit, Exit::Usage);
        assert!(unknown.text.ends_with("its nodes are: n1, n2, n3"), "{unknown}");
        assert_eq!(ended(&ssh, None, "n2").exit, Exit::Usage);
        let none = Ssh {
            program: dir.path().join("none"),
            connect: CONNECT,
        };
        let missing = ended(&none, Some(&spec), "n2");
        assert!(missing.text.contains("install the OpenSSH client ("), "{missing}");
        let here = run_with(&ssh, Some(&spec), &spec.node, &[]);
        assert_eq!(here, Ok(None), "it runs here");
    }

    #[test]
    fn only_the_option_itself_is_left_out() {
        let kept = |line: &str| words(line.split(' ').map(OsString::from)).unwrap().join(" ");
        assert_eq!(kept("--host n2 status -o json"), "status -o json");
        assert_eq!(
            kept("backup list --host=n2 --timeout 5s"),
            "backup list --timeout 5s"
        );
        assert_eq!(
            kept("restore x --to /y -- --host n2"),
            "restore x --to /y -- --host n2"
        );
    }
}
