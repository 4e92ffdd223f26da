//! The meaning of etcd's last log lines. They were collected from etcd 3.5.35, 3.6.16 and 3.7.3 by damaging
//! the log, the snapshots and the database of a member on purpose, and by taking away its disk, its rights,
//! its addresses and its certificates. docs/damage.md lists the messages of each version.

use crate::model::Trouble;

/// One line that etcd ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The message of etcd's log line, or what Go's runtime printed.
    pub(super) message: String,
    /// The error that came with it.
    pub(super) error: String,
}

impl Word {
    /// The message and the error, on one line of bounded length.
    pub(super) fn text(&self) -> String {
        let text = if self.error.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.message, self.error)
        };
        text.chars().take(400).collect()
    }
}

/// A part of a message or an error, and the trouble that it means. Trouble around the data comes first: etcd
/// reports it as the error of the same messages that it uses for damage.
const AROUND: &[(&str, Trouble)] = &[
    ("no space left on device", Trouble::NoSpace),
    ("disk quota exceeded", Trouble::NoSpace),
    ("read-only file system", Trouble::ReadOnly),
    ("input/output error", Trouble::DiskError),
    ("address already in use", Trouble::AddressTaken),
    ("permission denied", Trouble::NotPermitted),
    ("operation not permitted", Trouble::NotPermitted),
    ("tls: ", Trouble::Certificate),
    ("x509: ", Trouble::Certificate),
    // etcd 3.6 on data that etcd 3.5.1 to 3.5.19 wrote: https://github.com/etcd-io/etcd/issues/19557
    (
        "membership: too many learner members in cluster",
        Trouble::Learners,
    ),
];

/// The beginning of a message, a part of its error, and what is damaged.
const DAMAGE: &[(&str, &str, Trouble)] = &[
    // A record that was changed, a file that is missing between two others.
    ("discovery failed", "crc mismatch", Trouble::Log),
    // A record that is garbage.
    ("discovery failed", "proto: ", Trouble::Log),
    // A file that is cut off and is not the last one; etcd repairs the last one.
    (
        "failed to read WAL, cannot be repaired",
        "unexpected EOF",
        Trouble::Log,
    ),
    // No snapshot is left that the log reaches back to.
    ("failed to open WAL", "wal: file not found", Trouble::Log),
    // Both meta pages are damaged.
    ("failed to open database", "invalid database", Trouble::Database),
    // A damaged page that bbolt detects.
    (
        "panic: assertion failed: Page expected to be",
        "",
        Trouble::Database,
    ),
    // A page beyond the end of a file that is cut off.
    ("fatal error: fault", "", Trouble::Database),
];

/// The meaning of this line; `None` if it is unknown.
pub(super) fn understand(word: &Word) -> Option<Trouble> {
    let holds = |part: &&(&str, Trouble)| word.error.contains(part.0) || word.message.contains(part.0);
    if let Some((_, trouble)) = AROUND.iter().find(holds) {
        return Some(*trouble);
    }
    let missing = word.error.ends_with("no such file or directory");
    if word.message == "listener failed" && missing {
        return Some(Trouble::Certificate);
    }
    DAMAGE
        .iter()
        .find(|(message, error, _)| word.message.starts_with(message) && word.error.contains(error))
        .map(|(_, _, trouble)| *trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As etcd 3.5.35, 3.6.16 and 3.7.3 logged it.
    #[test]
    fn c11_what_etcd_says_when_it_ends() {
        use Trouble::*;
        let table = [
            ("discovery failed", "walpb: crc mismatch", Some(Log)),
            ("discovery failed", "wal: crc mismatch", Some(Log)),
            (
                "discovery failed",
                "walpb: crc mismatch: expected: 5939a1bc computed: 5dcc19f1: in file '0000000000000002-0000000000000509.wal' \
                 at position: 8508984",
                Some(Log),
            ),
            ("discovery failed", "proto: illegal wireType 6", Some(Log)),
            (
                "discovery failed",
                "proto: Record: illegal tag 0 (wire type 6)",
                Some(Log),
            ),
            (
                "discovery failed",
                "proto: cannot parse invalid wire-format data",
                Some(Log),
            ),
            (
                "failed to read WAL, cannot be repaired",
                "unexpected EOF: [wal] max entry size limit exceeded when decoding \"0-0.wal\", recBytes: 100050",
                Some(Log),
            ),
            ("failed to open WAL", "wal: file not found", Some(Log)),
            (
                "failed to open WAL",
                "openAtIndex failed: [openAtIndex] selectWALFiles failed: wal: file not found which matches the snapshot \
                 index '0'",
                Some(Log),
            ),
            ("failed to open database", "invalid database", Some(Database)),
            (
                "panic: assertion failed: Page expected to be: 28916, but self identifies as 0",
                "",
                Some(Database),
            ),
            ("fatal error: fault", "", Some(Database)),
            // Trouble around the data, with messages that damage has too.
            (
                "failed to commit tx",
                "write /var/lib/etcd/default/member/snap/db: no space left on device",
                Some(NoSpace),
            ),
            (
                "discovery failed",
                "cannot access data directory: open /var/lib/etcd/default/.touch: read-only file system",
                Some(ReadOnly),
            ),
            (
                "failed to list data directory",
                "open /var/lib/etcd/default: permission denied",
                Some(NotPermitted),
            ),
            (
                "discovery failed",
                "open /d/member/wal/0-0.wal: permission denied",
                Some(NotPermitted),
            ),
            (
                "failed to open database",
                "open /d/member/snap/db: permission denied",
                Some(NotPermitted),
            ),
            (
                "failed to read WAL, cannot be repaired",
                "read /d/0-0.wal: input/output error",
                Some(DiskError),
            ),
            (
                "discovery failed",
                "listen tcp 127.0.0.1:2380: bind: address already in use",
                Some(AddressTaken),
            ),
            (
                "listener failed",
                "open /etc/etcd/tls/no.crt: no such file or directory",
                Some(Certificate),
            ),
            (
                "listener failed",
                "tls: private key does not match public key",
                Some(Certificate),
            ),
            (
                "listener failed",
                "tls: failed to find any PEM data in certificate input",
                Some(Certificate),
            ),
            (
                "discovery failed",
                "membership: too many learner members in cluster",
                Some(Learners),
            ),
            // Unknown messages.
            ("discovery failed", "member 1 has already been bootstrapped", None),
            (
                "discovery failed",
                "couldn't find local name \"n1\" in the initial cluster configuration",
                None,
            ),
            (
                "failed to recover v3 backend from snapshot",
                "failed to find database snapshot file",
                None,
            ),
            ("panic: runtime error: index out of range", "", None),
        ];
        for (message, error, trouble) in table {
            let word = Word {
                message: message.to_owned(),
                error: error.to_owned(),
            };
            assert_eq!(understand(&word), trouble, "{message}: {error}");
        }
    }
}
