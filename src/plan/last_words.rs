//! Reports why etcd does not stay up, according to its own last log lines. No decision depends on them: the
//! owner of the data directory finds out whether the data is damaged (`src/unit/data/judge.rs`).

use super::context::Context;
use crate::model::{ReasonCode, Trouble};

/// Reports the trouble in etcd's last log lines, and the remedy.
pub(super) fn report(cx: &mut Context<'_>) {
    let Some(words) = &cx.obs.last_words else {
        return;
    };
    let (code, helps) = match words.trouble {
        Trouble::NoSpace => (ReasonCode::NoSpace, "make room on its disk"),
        Trouble::ReadOnly => (ReasonCode::DiskReadOnly, "mount its file system read-write"),
        Trouble::NotPermitted => (
            ReasonCode::NotPermitted,
            "give the file back to the user that etcd runs as",
        ),
        Trouble::DiskError => (ReasonCode::DiskError, "look at the disk"),
        Trouble::AddressTaken => (ReasonCode::AddressTaken, "end the program that listens there"),
        Trouble::Certificate => (
            ReasonCode::CertificateUnusable,
            "put a certificate and its key there",
        ),
        Trouble::Learners => (
            ReasonCode::TooManyLearners,
            "etcd 3.5.1 to 3.5.19 did not store that its learners were promoted: run 3.5.26 or newer of 3.5 on all members, \
             restart etcd on each once more, then upgrade",
        ),
        Trouble::Log | Trouble::Database if words.claim_damage() => (
            ReasonCode::DamageUnproven,
            "reading its data finds no damage, so it is not replaced",
        ),
        Trouble::Log | Trouble::Database => return,
    };
    let text = format!("etcd does not stay up: {}; {helps}", words.text);
    cx.because(code, text);
}
