//! Reports on the store that a person has to judge: commands of etcd-manager, and an etcd that was put back.

use super::context::Context;
use super::increments::gap;
use crate::model::{Fact, ReasonCode};

/// At most this many commands are named. `etcd-agent etcd-manager commands list` shows all of them.
const NAMED: usize = 3;

/// Reports that etcd-manager's queue has commands. A person has to judge them.
pub(super) fn report_commands(cx: &mut Context<'_>) {
    let commands = match &cx.obs.store {
        Fact::Known(store) if cx.is_coordinator() && !store.commands.is_empty() => &store.commands,
        _ => return,
    };
    // Anyone with write access to the store can have chosen these names.
    let named: Vec<String> = commands
        .iter()
        .take(NAMED)
        .map(|name| name.escape_debug().to_string())
        .collect();
    let more = match commands.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "the store holds commands of etcd-manager, which are not carried out: {}{more}; `etcd-agent etcd-manager \
         commands list` shows what they ask for",
        named.join(", ")
    );
    cx.because(ReasonCode::CommandWaiting, text);
}

/// Reports that etcd was put back to an older state. A person may not know which writes were lost.
pub(super) fn report_history(cx: &mut Context<'_>) {
    if !cx.is_coordinator() {
        return;
    }
    let stored = cx.obs.store.known().and_then(|store| store.went_back.as_ref());
    let followed = cx.obs.backups.went_back.as_ref().filter(|_| gap(cx));
    if let Some(why) = followed.or(stored) {
        let text = format!(
            "etcd was put back to an older state under the same cluster ID: {why}; what was stored before stays in the store, \
             and `restore latest` means what etcd has now: `etcd-agent backup list`"
        );
        cx.because(ReasonCode::HistoryWentBack, text);
    }
}
