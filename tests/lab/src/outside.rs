//! Runs work in the outside network namespace of a lab, from a thread of this process.

use std::fs::File;
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Permanently moves this thread, and threads that it starts from now on, into a named network namespace.
pub(crate) fn enter(namespace: &str) -> Result<()> {
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).with_context(|| format!("opening {path}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("entering {path}"))
}

/// Runs `work` in the namespace, on a thread of its own.
pub(crate) fn run<T: Send>(namespace: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(namespace)?;
            work()
        });
        thread
            .join()
            .map_err(|_| anyhow!("work in {namespace} panicked"))?
    })
}
