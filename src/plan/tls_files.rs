//! Keeps a running etcd from a restart into certificate files with which it cannot work. Its own user has read
//! them before (`src/unit/data/tls_files.rs`). ADR 28.

use std::time::Duration;

use super::context::Context;
use crate::model::{Assignment, ReasonCode, SteadyMs, TlsUse, TlsView, Transport};

/// Files that were read longer ago are read again before a restart: a certificate expires without a change.
pub(super) const LASTS: Duration = Duration::from_mins(10);

/// Why a running etcd must not be restarted with the files of `next` now; `None` if nothing was found in them.
pub fn restart_objection(view: &TlsView, next: &Transport, now: SteadyMs) -> Option<String> {
    if mutant!(FilesUnchecked) {
        return None;
    }
    let objection = next.files().find_map(|(serves, files)| {
        let why = view.objection(serves, files)?;
        Some(format!("[{}]: {why}", serves.table()))
    });
    objection.or_else(|| {
        let old =
            view.found.known().is_some() && next.files().next().is_some() && now.since(view.at) >= LASTS;
        old.then(|| "its certificate files are read again first".to_owned())
    })
}

/// Reports what was found in the files that are configured, and in those of the next start.
pub(super) fn report(cx: &mut Context<'_>) {
    let Some(found) = cx.obs.tls.found.known() else {
        return;
    };
    let up = cx.obs.me.is_active();
    for one in found {
        let Some(why) = &one.trouble else { continue };
        let then = if up {
            "etcd keeps running and is not restarted with it"
        } else {
            "etcd does not work with it"
        };
        let text = format!("[{}]: {why}; {then}", one.serves.table());
        cx.because(ReasonCode::TlsFilesUnusable, text);
    }
}

/// Keeps the files that are assigned where others are configured with which etcd cannot work, or which nobody has
/// read yet while it runs. So etcd also comes back from a crash with files that work.
pub(super) fn keep_assigned(
    cx: &Context<'_>,
    assignment: &Assignment,
    assigned: &Transport,
    next: &mut Transport,
) {
    if !assignment.started || mutant!(FilesUnchecked) {
        return;
    }
    let view = &cx.obs.tls;
    let refused = |serves: TlsUse, files: &_| {
        let waits = view.unread && !cx.obs.me.is_active();
        view.objection(serves, files).is_some() && !waits
    };
    if next.client != assigned.client
        && let Some(files) = &next.client
        && refused(TlsUse::Clients, files)
    {
        next.client.clone_from(&assigned.client);
    }
    if next.peer != assigned.peer
        && let Some(files) = &next.peer
        && refused(TlsUse::Members, files)
    {
        next.peer.clone_from(&assigned.peer);
        next.peer_listens = assigned.peer_listens;
    }
}
