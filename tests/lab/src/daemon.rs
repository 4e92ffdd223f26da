//! Starts processes that outlive the call: hosts and the S3 server, each in its control group.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cgroup::Cgroup;
use crate::cmd::PATH;

/// Starts `argv` in `group` with only `env` (and `PATH`) in its environment, its output appended to `log`.
///
/// The process is not tied to this one: it keeps running when this one ends, until its group is killed.
pub(crate) fn start(group: &Cgroup, argv: &[String], env: &[(&str, &str)], log: &Path) -> Result<()> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening {}", log.display()))?;
    // The shell moves itself into the group before it executes the program, so no process is ever outside the
    // group.
    let mut script = String::new();
    for procs in group.create()? {
        let _ = writeln!(script, "echo $$ > {}", procs.display());
    }
    script.push_str("exec \"$@\"\n");
    let mut child = Command::new("/bin/sh")
        .args(["-ec", &script, "sh"])
        .args(argv)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .envs(env.iter().copied())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {argv:?}"))?;
    // It is reaped as soon as it ends: a zombie would keep its group busy.
    std::thread::spawn(move || child.wait());
    Ok(())
}
