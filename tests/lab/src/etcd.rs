//! One etcd as a plain process, without systemd and without an agent, and requests to it.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cmd::PATH;

/// The result of a start, as systemd would see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdState {
    /// It sent `READY=1`.
    Serves,
    /// It runs and has not sent `READY=1`: systemd reports `activating`.
    Hangs,
    /// It has ended.
    Exits,
}

/// A running etcd. Dropping it kills it.
#[derive(Debug)]
pub struct EtcdProcess {
    child: Child,
    notifications: UnixDatagram,
    ready: bool,
}

impl EtcdProcess {
    /// Starts `program` in this thread's network namespace. Its data is in `dir`, its log in `dir`.log, and
    /// it ends with this thread at the latest.
    pub fn start(program: &Path, dir: &Path, args: &[String]) -> Result<Self> {
        let (socket, log) = (dir.with_extension("notify"), dir.with_extension("log"));
        let _ = fs::remove_file(&socket);
        let notifications =
            UnixDatagram::bind(&socket).with_context(|| format!("binding {}", socket.display()))?;
        notifications.set_nonblocking(true)?;
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new("setpriv")
            // Otherwise it would outlive a test that is killed.
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .arg(format!("--data-dir={}", dir.display()))
            .args(args)
            .env_clear()
            .env("PATH", PATH)
            .env("NOTIFY_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting setpriv")?;
        Ok(Self {
            child,
            notifications,
            ready: false,
        })
    }

    /// The current state.
    pub fn state(&mut self) -> Result<EtcdState> {
        let mut message = [0; 256];
        while let Ok(length) = self.notifications.recv(&mut message) {
            let text = String::from_utf8_lossy(message.get(..length).unwrap_or_default());
            self.ready |= text.lines().any(|line| line == "READY=1");
        }
        Ok(match self.child.try_wait()? {
            Some(_) => EtcdState::Exits,
            None if self.ready => EtcdState::Serves,
            None => EtcdState::Hangs,
        })
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request to etcd's JSON gateway: a process for each request (`etcdctl`) would cost more than etcd
/// itself. The error is etcd's own text, or why there is no answer.
pub fn ask_etcd(address: SocketAddr, what: &str, body: &Value, timeout: Duration) -> Result<Value, String> {
    let answer = request(address, what, &body.to_string(), timeout)
        .map_err(|error| format!("no answer: {error:#}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let value: Value = serde_json::from_str(body).map_err(|error| format!("no answer: {error}: {answer}"))?;
    if head.lines().next().is_some_and(|line| line.contains(" 200 ")) {
        Ok(value)
    } else {
        Err(value["message"].as_str().unwrap_or(body).to_owned())
    }
}

/// The sum of etcd's metrics whose line begins with `begins`, e.g. of one name and some of its labels.
pub fn etcd_metric(address: SocketAddr, begins: &str) -> Result<f64> {
    let answer = request(address, "GET /metrics", "", Duration::from_secs(5))?;
    let lines: Vec<&str> = answer.lines().filter(|line| line.starts_with(begins)).collect();
    ensure!(!lines.is_empty(), "etcd has no metric {begins}");
    let values = lines.iter().map(|line| {
        let value = line.rsplit(' ').next().unwrap_or_default();
        value
            .parse::<f64>()
            .with_context(|| format!("not a number: {line}"))
    });
    values.sum()
}

fn request(address: SocketAddr, what: &str, body: &str, timeout: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    // HTTP 1.0: the answer is not chunked, and ends when the connection is closed.
    write!(
        stream,
        "{what} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
