//! Waits for a condition, with an error that names it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The longest pause between two checks.
const LONGEST: Duration = Duration::from_secs(1);

/// Calls `check` until it returns `true`. After `timeout` the error names `what` and the last error.
pub fn wait_until(
    what: &str,
    timeout: Duration,
    mut check: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let start = Instant::now();
    wait_for(what, timeout, || Ok(check()?.then_some(())))?;
    Ok(start.elapsed())
}

/// Calls `look` until it returns a value. After `timeout` the error names `what` and the last error.
///
/// An error of `look` means "not yet": the target is often not reachable at first. Between two calls it
/// pauses twice as long as a call takes: a `look` that starts programs must not take the CPU from what it
/// waits for.
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
        std::thread::sleep(pause.max((looked.elapsed() * 2).min(LONGEST)));
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    match last {
        Some(error) => bail!("waited {timeout:?} for {what}; the last try said: {error:#}"),
        None => bail!("waited {timeout:?} for {what}"),
    }
}
