//! Running other programs: each with a deadline, its output captured, and a known environment.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// The only `PATH` that programs of the lab see.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a finished program left behind.
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

    /// Itself when it exited with 0, else an error with the command line and all it printed.
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

/// A program to run. The environment starts empty but for `PATH`, `HOME` and `LANG`: a proxy, an
/// `AWS_CA_BUNDLE` or an `SSL_CERT_FILE` of the caller reaches nothing in the lab unless asked for.
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
        let mut command = Command::new(program.as_ref());
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

    /// The whole environment of the caller: only for programs that fetch something from outside.
    #[must_use]
    pub fn caller_env(mut self) -> Self {
        self.command
            .envs(std::env::vars_os().collect::<Vec<(OsString, OsString)>>());
        self
    }

    /// The working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// What it reads on standard input (nothing by default).
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// After this long it is killed, with all it started, and `run` answers an error.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end, whatever its exit code.
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
            // Its own group, so that what it forks (nsenter does) ends with it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting `{}`", self.what))?;
        if let (Some(bytes), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // A program that does not read all of it is no error of ours.
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

    /// Runs it and wants exit code 0.
    pub fn ok(self) -> Result<Output> {
        self.run()?.ok()
    }
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
