//! The system's ssh: how the command for another host is written, and what its exit codes mean.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::exit::{Exit, Failure};

/// The code with which ssh ends when it could not connect (`ssh(1)`).
const NO_CONNECTION: i32 = 255;
/// The code with which a shell ends when it finds no such command.
const NOT_FOUND: i32 = 127;

/// The program, and how long it may take to connect.
#[derive(Debug, Clone)]
pub(super) struct Ssh {
    pub(super) program: PathBuf,
    pub(super) connect: Duration,
}

impl Ssh {
    /// The ssh in `PATH`.
    pub(super) fn here(connect: Duration) -> Self {
        Self {
            program: "ssh".into(),
            connect,
        }
    }

    /// Runs `etcd-agent` with these words on a host.
    pub(super) fn command(&self, terminal: bool, host: &str, words: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments(terminal, host, words));
        command
    }

    /// Its arguments: no question is asked, and the host is never taken for an option.
    fn arguments(&self, terminal: bool, host: &str, words: &[String]) -> Vec<OsString> {
        let words: Vec<String> = ["etcd-agent".to_owned()]
            .into_iter()
            .chain(words.iter().map(|word| quoted(word)))
            .collect();
        [
            if terminal { "-t" } else { "-T" }.to_owned(),
            "-o".to_owned(),
            "BatchMode=yes".to_owned(),
            "-o".to_owned(),
            format!("ConnectTimeout={}", self.connect.as_secs()),
            "--".to_owned(),
            host.to_owned(),
            words.join(" "),
        ]
        .into_iter()
        .map(OsString::from)
        .collect()
    }

    pub(super) fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::new(
            Exit::Unreachable,
            format!(
                "cannot run {}: {error}; install the OpenSSH client (Debian: openssh-client, Fedora, EL and SUSE: \
                 openssh-clients)",
                self.program.display()
            ),
        )
    }
}

/// Why ssh did not bring an answer; `None` if the code is that of etcd-agent itself.
pub(super) fn failed(code: Option<i32>, host: &str) -> Option<String> {
    match code {
        Some(NO_CONNECTION) => Some(format!(
            "no connection to {host} by ssh (`ssh -v {host}` shows why; it needs a key that asks for no passphrase)"
        )),
        Some(NOT_FOUND) => Some(format!(
            "{host} has no etcd-agent in the PATH of its shell: is the package installed there?"
        )),
        Some(_) => None,
        None => Some(format!("ssh to {host} was killed")),
    }
}

/// A word as a POSIX shell reads it back unchanged.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in [
            "status",
            "",
            "reboot n2",
            "$(touch /tmp/x)",
            "a'b\"c\\d`e",
            "; rm -rf /",
            "*",
            "two\nlines",
            "ü",
            "~root",
        ] {
            let line = format!("printf %s {}", quoted(word));
            let read = std::process::Command::new("sh")
                .args(["-c", &line])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), word, "{line}");
        }
        assert_eq!(quoted("--watch=2"), "--watch=2");
    }

    #[test]
    fn a_host_is_never_an_option() {
        let ssh = Ssh::here(Duration::from_secs(7));
        let words = ["plan".to_owned(), "--after".to_owned(), "lose n2".to_owned()];
        let line: Vec<String> = ssh
            .arguments(false, "-oProxyCommand=x", &words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        assert_eq!(
            line,
            [
                "-T",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=7",
                "--",
                "-oProxyCommand=x",
                "etcd-agent plan --after 'lose n2'"
            ]
        );
    }
}
