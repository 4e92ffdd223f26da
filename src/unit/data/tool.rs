//! `etcdutl` or `etcdctl snapshot restore`: where it is, and a run of it with a deadline and a known
//! environment.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::etcd_versions::PROGRAM_DIRS;
use crate::unit::roots::roots_own;

/// The programs that can restore a snapshot, the better one first.
const RESTORE_TOOLS: [&str; 2] = ["etcdutl", "etcdctl"];

/// Where etcd's programs may be, best first, and whether only root may have installed them.
#[derive(Debug, Clone)]
pub struct Programs {
    dirs: Vec<PathBuf>,
    roots_only: bool,
}

impl Programs {
    /// Next to the pinned etcd, then where packages put them; root's programs only.
    pub(in crate::unit) fn of_root(etcd: Option<&Path>) -> Self {
        Self {
            roots_only: true,
            ..Self::of_anybody(etcd)
        }
    }

    /// The same, with any owner: an operator runs them with the operator's own rights.
    pub(in crate::unit) fn of_anybody(etcd: Option<&Path>) -> Self {
        let etcd_dir = etcd.and_then(Path::parent).map(Path::to_owned);
        let packaged = PROGRAM_DIRS.map(PathBuf::from);
        Self::anywhere(etcd_dir.into_iter().chain(packaged).collect())
    }

    /// In these directories, with any owner.
    pub fn anywhere(dirs: Vec<PathBuf>) -> Self {
        Self {
            dirs,
            roots_only: false,
        }
    }

    /// The restore tool: `etcdutl` if there is one (etcd >= 3.5), else `etcdctl`, next to etcd first.
    pub(in crate::unit) fn restore_tool(&self) -> Result<PathBuf, String> {
        self.find(&RESTORE_TOOLS)?.ok_or_else(|| {
            format!(
                "neither etcdutl nor etcdctl in {}: install etcdutl (Debian: etcd-client, Fedora: etcd, SUSE: etcdutl)",
                self.shown()
            )
        })
    }

    /// The restore tool next to the etcd that is selected. One of another version writes what that etcd may not
    /// know.
    pub(super) fn own_restore_tool(&self) -> Result<PathBuf, String> {
        let dirs = self.dirs.iter().take(1).cloned().collect();
        let own = Self {
            dirs,
            roots_only: self.roots_only,
        };
        own.find(&RESTORE_TOOLS)?.ok_or_else(|| {
            format!(
                "neither etcdutl nor etcdctl in {}: a move needs the one of the release that is selected, so unpack the \
                 whole release there",
                own.shown()
            )
        })
    }

    /// etcd itself.
    pub(in crate::unit) fn etcd(&self) -> Result<PathBuf, String> {
        self.find(&["etcd"])?.ok_or_else(|| {
            format!(
                "no etcd in {}: install etcd (Debian: etcd-server, Fedora and SUSE: etcd)",
                self.shown()
            )
        })
    }

    /// The first that exists. A program that others than root can have installed is an error and is not
    /// skipped: an operator has to look at it.
    fn find(&self, names: &[&str]) -> Result<Option<PathBuf>, String> {
        let mut places = self
            .dirs
            .iter()
            .flat_map(|dir| names.iter().map(move |name| dir.join(name)));
        let Some(found) = places.find(|path| path.is_file()) else {
            return Ok(None);
        };
        if self.roots_only {
            roots_own("the program", &found)?;
        }
        Ok(Some(found))
    }

    fn shown(&self) -> String {
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        dirs.join(", ")
    }
}

/// Whether `snapshot restore` of this tool knows `--bump-revision`.
pub(super) fn bumps(tool: &Path) -> Result<bool, String> {
    let help = run(
        tool,
        &["snapshot", "restore", "--help"].map(str::to_owned),
        Duration::from_secs(30),
    )?;
    Ok(help.contains("--bump-revision") && help.contains("--mark-compacted"))
}

/// The version that this etcd reports, if any.
pub(in crate::unit) fn etcd_version(etcd: &Path) -> Option<String> {
    let said = run(etcd, &["--version".to_owned()], Duration::from_secs(10)).ok()?;
    let version = said.lines().find_map(|line| line.strip_prefix("etcd Version:"))?;
    Some(version.trim().to_owned())
}

/// How a tool ended, and the end of its output.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) text: String,
}

/// Runs a tool; returns the end of its output, or an error with it.
pub(super) fn run(tool: &Path, args: &[String], deadline: Duration) -> Result<String, String> {
    let output = output(tool, args, deadline, 16 << 10)?;
    if output.status.success() {
        return Ok(output.text);
    }
    let last = output
        .text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let last: String = last.chars().take(600).collect();
    Err(format!(
        "{} failed ({}): {last}",
        shown(tool, args),
        output.status
    ))
}

fn shown(tool: &Path, args: &[String]) -> String {
    format!(
        "{} {}",
        tool.display(),
        args.iter().take(2).cloned().collect::<Vec<_>>().join(" ")
    )
}

/// Runs a tool; returns how it ended, and the last `most` bytes of its output.
pub(super) fn output(
    tool: &Path,
    args: &[String],
    deadline: Duration,
    most: usize,
) -> Result<Output, String> {
    let what = shown(tool, args);
    let failed = |error: std::io::Error| format!("{what}: {error}");
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(tool);
    command
        .args(args)
        .env_clear()
        .env("ETCDCTL_API", "3")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // This closes its copies of the pipe, so that reading ends when the tool does.
    drop(command);
    let output = std::thread::spawn(move || {
        let mut tail = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = reader.read(&mut chunk) {
            tail.extend(chunk.iter().take(n));
            if tail.len() > 2 * most {
                tail.drain(..tail.len() - most);
            }
        }
        tail.drain(..tail.len().saturating_sub(most));
        String::from_utf8_lossy(&tail).into_owned()
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if start.elapsed() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{what} did not end within {} s", deadline.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = output.join().unwrap_or_default();
    Ok(Output { status, text })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A pinned etcd in a directory of the daemon's user: the tool next to it is not run.
    #[test]
    fn f01_a_tool_that_is_not_roots_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etcd", "etcdutl"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let etcd = dir.path().join("etcd");
        let programs = Programs::of_root(Some(&etcd));
        for refused in [programs.restore_tool(), programs.etcd()] {
            let why = refused.unwrap_err();
            assert!(why.contains("is not root's alone to write"), "{why}");
        }
        let programs = Programs::of_anybody(Some(&etcd));
        assert_eq!(programs.restore_tool().unwrap(), dir.path().join("etcdutl"));
        assert_eq!(programs.etcd().unwrap(), etcd);
    }

    /// SUSE has etcd in `/usr/sbin`, and etcdutl in a package of its own.
    #[test]
    fn programs_are_looked_for_and_named_as_each_distribution_has_them() {
        let programs = Programs::of_anybody(Some(Path::new("/opt/etcd/etcd")));
        assert_eq!(programs.shown(), "/opt/etcd, /usr/bin, /usr/sbin, /usr/local/bin");
        let dir = tempfile::tempdir().unwrap();
        let none = Programs::anywhere(vec![dir.path().to_owned()]);
        let (tool, etcd) = (none.restore_tool().unwrap_err(), none.etcd().unwrap_err());
        for package in ["Debian: etcd-client", "Fedora: etcd", "SUSE: etcdutl"] {
            assert!(tool.contains(package), "{tool}");
        }
        for package in ["Debian: etcd-server", "Fedora and SUSE: etcd"] {
            assert!(etcd.contains(package), "{etcd}");
        }
    }
}
