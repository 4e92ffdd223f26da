//! Runs other programs: each with a deadline, captured output and a known environment.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// The only `PATH` that programs of the lab see.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The result of a finished program.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit code, or 128 + the signal that ended it.
    pub code: i32,
    /// Standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error, invalid UTF-8 replaced.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    what: String,
}

impl Output {
    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.code == 0
    }

    /// Returns itself if the exit code is 0, else an error with the command line and all output.
    pub fn ok(self) -> Result<Self> {
        if self.success() {
            return Ok(self);
        }
        let mut text = format!("`{}` exited with {}", self.what, self.code);
        for (name, body) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !body.trim().is_empty() {
                let _ = write!(text, "\n  {name}: {}", body.trim_end().replace('\n', "\n    "));
            }
        }
        bail!(text)
    }

    /// Standard output without surrounding white space.
    pub fn text(&self) -> &str {
        self.stdout.trim()
    }
}

/// A program to run. Its environment has only `PATH`, `HOME` and `LANG`: a proxy, an `AWS_CA_BUNDLE` or an
/// `SSL_CERT_FILE` of the caller does not reach the lab unless requested.
#[derive(Debug)]
pub struct Cmd {
    command: Command,
    what: String,
    deadline: Duration,
    input: Option<Vec<u8>>,
}

impl Cmd {
    /// A program by name or path, with a deadline of 30 s.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(found(program.as_ref()));
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/root")
            .env("LANG", "C.UTF-8");
        Self {
            what: program.as_ref().to_string_lossy().into_owned(),
            command,
            deadline: Duration::from_secs(30),
            input: None,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        let _ = write!(self.what, " {}", arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, args: I) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// One environment variable.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Passes the whole environment of the caller: only for programs that download something.
    #[must_use]
    pub fn caller_env(mut self) -> Self {
        self.command
            .envs(std::env::vars_os().collect::<Vec<(OsString, OsString)>>());
        self
    }

    /// The working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// The bytes on its standard input (none by default).
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// After this time the program and its children are killed, and `run` returns an error.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end, and returns its output with any exit code.
    pub fn run(mut self) -> Result<Output> {
        let start = Instant::now();
        let mut child = self
            .command
            .stdin(if self.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A process group of its own, so that its children (nsenter forks) are killed too.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting `{}`", self.what))?;
        if let (Some(bytes), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // A program may end without reading all of its input.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let status = wait(&mut child, start, self.deadline);
        if status.is_none() {
            kill_group(&mut child);
        }
        let (stdout, stderr) = (joined(stdout), joined(stderr));
        let Some(status) = status else {
            bail!(
                "`{}` did not end within {:?} and was killed\n  stdout: {}\n  stderr: {}",
                self.what,
                self.deadline,
                stdout.trim_end(),
                stderr.trim_end()
            );
        };
        let code = {
            use std::os::unix::process::ExitStatusExt;
            status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
        };
        Ok(Output {
            code,
            stdout,
            stderr,
            took: start.elapsed(),
            what: self.what,
        })
    }

    /// Runs it and requires exit code 0.
    pub fn ok(self) -> Result<Output> {
        self.run()?.ok()
    }
}

/// The path of a program in [`PATH`], as execvp(3) would find it. Given a name and a `PATH`, `Command` forks, and the
/// page tables of the tests, some hundred MiB, are copied for each program; given a path, it calls `posix_spawn`.
fn found(program: &OsStr) -> PathBuf {
    let name = Path::new(program);
    let mut places = PATH.split(':').map(|dir| Path::new(dir).join(name));
    let is_name = name.components().count() == 1 && !name.is_absolute();
    let path = is_name.then(|| places.find(|path| path.is_file())).flatten();
    path.unwrap_or_else(|| name.to_owned())
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn joined(handle: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
}

fn wait(child: &mut Child, start: Instant, deadline: Duration) -> Option<std::process::ExitStatus> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if start.elapsed() > deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn kill_group(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
