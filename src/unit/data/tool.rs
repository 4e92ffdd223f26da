//! `etcdutl` or `etcdctl snapshot restore`, with a deadline and a known environment.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where etcd's programs may be, best first: beside the pinned etcd, then where packages put them.
pub(in crate::unit) fn dirs(binary: Option<&Path>) -> Vec<PathBuf> {
    let beside = binary.and_then(Path::parent).map(Path::to_owned);
    let packaged = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    beside.into_iter().chain(packaged).collect()
}

/// The restore tool: `etcdutl` where there is one (etcd >= 3.5), else `etcdctl`, each beside etcd first.
pub(in crate::unit) fn find(dirs: &[PathBuf]) -> Result<PathBuf, String> {
    ["etcdutl", "etcdctl"]
        .iter()
        .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
            format!(
                "neither etcdutl nor etcdctl in {}: install etcd-client",
                dirs.join(", ")
            )
        })
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

/// Runs it; answers the last of what it printed, or an error with it.
pub(super) fn run(tool: &Path, args: &[String], deadline: Duration) -> Result<String, String> {
    let what = format!(
        "{} {}",
        tool.display(),
        args.iter().take(2).cloned().collect::<Vec<_>>().join(" ")
    );
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
    // Its own copies of the pipe go with it, so that reading ends when the tool does.
    drop(command);
    let output = std::thread::spawn(move || {
        let mut tail = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = reader.read(&mut chunk) {
            tail.extend(chunk.iter().take(n));
            let surplus = tail.len().saturating_sub(16 << 10);
            tail.drain(..surplus);
        }
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
    let output = output.join().unwrap_or_default();
    if status.success() {
        return Ok(output);
    }
    let last = output
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let last: String = last.chars().take(600).collect();
    Err(format!("{what} failed ({status}): {last}"))
}
