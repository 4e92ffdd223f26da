//! Keeps a running etcd from a stop with certificate files with which it cannot start again. Its own user has
//! read them before (`src/unit/data/tls_files.rs`). ADR 28.

use std::time::Duration;

use super::context::Context;
use crate::model::{Assignment, ReasonCode, SteadyMs, TlsUse, TlsView, Transport};

/// A stop by others waits this long for files to be read. The gate lets it go on soon, and stops of several
/// members that nobody has granted coincide.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Who wants to stop etcd on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWish {
    /// Nobody.
    Nobody,
    /// Somebody who waits until it may be stopped.
    Waits,
    /// The gate holds a stop back, for this long so far. It soon goes on without leave.
    Held(Duration),
}

impl StopWish {
    /// True for a stop that the gate does not hold back much longer: what was not read by now does not count any more.
    pub(super) fn ends_soon(self) -> bool {
        matches!(self, Self::Held(waited) if waited >= READ_WITHIN)
    }
}

/// Why a running etcd must not be restarted with the files of `next` now; `None` if nothing was found in them.
pub fn restart_objection(view: &TlsView, next: &Transport, now: SteadyMs) -> Option<String> {
    stop_objection(view, next, now, StopWish::Waits)
}

/// True if nothing was found in the files of `next`: all that may be missing is that they are read.
pub fn nothing_found(view: &TlsView, next: &Transport) -> bool {
    let found = |(serves, files)| view.finding(serves, files);
    !next.files().filter_map(found).any(|one| one.trouble.is_some())
}

/// Why a running etcd, if it is stopped now, might not start again with the files of `next`; `None` if
/// nothing was found in them. Files that were read long ago count while nobody wants to stop it.
pub fn stop_objection(view: &TlsView, next: &Transport, now: SteadyMs, wish: StopWish) -> Option<String> {
    if mutant!(FilesUnchecked) {
        return None;
    }
    let no_longer = wish.ends_soon();
    let objection = next.files().find_map(|(serves, files)| {
        let why = if no_longer {
            view.finding(serves, files)?.trouble.clone()?
        } else {
            view.objection(serves, files)?
        };
        Some(format!("[{}]: {why}", serves.table()))
    });
    objection.or_else(|| {
        let waits = wish != StopWish::Nobody && !no_longer;
        let old = waits && view.is_old(now) && next.files().next().is_some();
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
