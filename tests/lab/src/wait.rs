//! Waiting for something to become true, with an error that says what it was.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The longest rest between two looks.
const LONGEST: Duration = Duration::from_secs(1);

/// Calls `check` until it answers `true`. After `timeout` the error names `what` and the last error.
pub fn wait_until(
    what: &str,
    timeout: Duration,
    mut check: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let start = Instant::now();
    wait_for(what, timeout, || Ok(check()?.then_some(())))?;
    Ok(start.elapsed())
}

/// Calls `look` until it answers a value. After `timeout` the error names `what` and the last error.
///
/// An error of `look` means "not yet": what is waited for is often not reachable at first. Between two looks it rests as
/// long as a look takes: one that starts programs must not keep what it waits for from the processor.
pub fn wait_for<T>(what: &str, timeout: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let mut last;
    loop {
        let looked = Instant::now();
        match look() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => last = None,
            Err(error) => last = Some(error),
        }
        if start.elapsed() >= timeout {
            break;
        }
        std::thread::sleep(pause.max(looked.elapsed().min(LONGEST)));
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    match last {
        Some(error) => bail!("waited {timeout:?} for {what}; the last try said: {error:#}"),
        None => bail!("waited {timeout:?} for {what}"),
    }
}
