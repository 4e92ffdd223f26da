//! systemd's state of units in a host, and operations on them.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cmd::Output;
use crate::host::Host;
use crate::wait::wait_until;

/// The state of a unit in systemd's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    /// `active`, `activating`, `inactive`, `failed`, ...
    pub active: String,
    /// `running`, `start-pre`, `dead`, ...
    pub sub: String,
    /// `success`, `exit-code`, `signal`, ...
    pub result: String,
}

impl fmt::Display for UnitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.active, self.sub, self.result)
    }
}

impl Host {
    /// Runs `systemctl` with these arguments, at most 120 s, and returns its output with any exit code.
    pub fn systemctl(&self, args: &[&str]) -> Result<Output> {
        let mut argv = vec!["systemctl"];
        argv.extend(args);
        self.exec_for(Duration::from_mins(2), &argv)
    }

    /// One property of a unit, empty if it has none.
    pub fn unit_property(&self, unit: &str, property: &str) -> Result<String> {
        let output = self.systemctl(&["show", "--value", "-p", property, unit])?.ok()?;
        Ok(output.text().to_owned())
    }

    /// The state of a unit.
    pub fn unit_state(&self, unit: &str) -> Result<UnitState> {
        let read = |property| self.unit_property(unit, property);
        Ok(UnitState {
            active: read("ActiveState")?,
            sub: read("SubState")?,
            result: read("Result")?,
        })
    }

    /// The PID of a unit's main process inside the host.
    pub fn main_pid(&self, unit: &str) -> Result<Option<u32>> {
        let pid: u32 = self.unit_property(unit, "MainPID")?.parse().context("MainPID")?;
        Ok((pid != 0).then_some(pid))
    }

    /// Sends a signal (`KILL`, `STOP`, ...) to the main process of a unit.
    pub fn kill_process(&self, unit: &str, signal: &str) -> Result<()> {
        let pid = self
            .main_pid(unit)?
            .with_context(|| format!("{unit} on {} has no process", self.name()))?;
        self.exec(&["kill", "-s", signal, &pid.to_string()])?.ok()?;
        Ok(())
    }

    /// Waits until a unit's `ActiveState` is `wanted`. The error shows the end of its journal.
    pub fn wait_unit(&self, unit: &str, wanted: &str, timeout: Duration) -> Result<Duration> {
        let what = format!("{unit} on {} to be {wanted}", self.name());
        wait_until(&what, timeout, || {
            Ok(self.unit_property(unit, "ActiveState")? == wanted)
        })
        .with_context(|| {
            let state = self
                .unit_state(unit)
                .map_or_else(|error| format!("{error:#}"), |state| state.to_string());
            format!("{unit} is {state}; its journal:\n{}", self.journal_tail(unit, 15))
        })
    }

    /// The journal of a unit over all boots, also of a host that is off.
    pub fn journal(&self, unit: &str) -> Result<String> {
        self.journalctl(&["-u", unit])
    }

    /// The last lines of the journal of a unit; on failure the text of the error, since people read this.
    pub fn journal_tail(&self, unit: &str, lines: usize) -> String {
        self.journalctl(&["-u", unit, "-n", &lines.to_string()])
            .unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Runs `journalctl` on the host's disk: works for a host that is on, off or killed.
    pub fn journalctl(&self, args: &[&str]) -> Result<String> {
        let output = crate::cmd::Cmd::new("chroot")
            .arg(self.disk())
            .args([
                "journalctl",
                "--no-pager",
                "--quiet",
                "-o",
                "short-iso-precise",
                "-D",
                "/var/log/journal",
            ])
            .args(args)
            .ok()?;
        Ok(output.stdout)
    }
}
