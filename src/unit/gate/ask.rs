//! Questions to the running agent on the gate's socket, blocking and bounded.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::Leave;

/// What the agent answers.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct GateAnswer {
    /// Whether the assignment's epoch is confirmed.
    pub clear: bool,
    /// What the agent is waiting for.
    pub text: String,
}

/// What the agent answers before a stop.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct StopAnswer {
    /// What was stored, or why it was not.
    pub(super) text: String,
}

const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Asks the agent whether etcd may start.
///
/// # Errors
/// No agent listens, it does not answer within `deadline` (per read), or its answer has another form.
pub(super) fn may_start(socket: &Path, deadline: Duration) -> io::Result<GateAnswer> {
    ask(socket, "GET /v1/gate", deadline)
}

/// Asks the agent whether etcd may stop.
///
/// # Errors
/// As [`may_start`].
pub(super) fn may_stop(socket: &Path, deadline: Duration) -> io::Result<Leave> {
    ask(socket, "POST /v1/gate/leave", deadline)
}

/// Tells the agent that etcd is about to stop.
///
/// # Errors
/// As [`may_start`].
pub(super) fn before_stop(socket: &Path, deadline: Duration) -> io::Result<StopAnswer> {
    ask(socket, "POST /v1/gate/stop", deadline)
}

/// HTTP/1.0, so that the answer ends with the connection and never comes in chunks.
fn ask<T: DeserializeOwned>(socket: &Path, question: &str, deadline: Duration) -> io::Result<T> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    stream.write_all(format!("{question} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    parse(&answer)
}

fn parse<T: DeserializeOwned>(answer: &str) -> io::Result<T> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| bad("the agent's answer is cut off".to_owned()))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(bad(format!("the agent answers {status}")));
    }
    serde_json::from_str(body).map_err(|error| bad(format!("the agent's answer: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let good =
            "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"clear\":false,\"text\":\"n2\"}";
        assert_eq!(
            parse::<GateAnswer>(good).unwrap(),
            GateAnswer {
                clear: false,
                text: "n2".to_owned()
            }
        );
        for bad in ["", "HTTP/1.0 503 Busy\r\n\r\n{}", "HTTP/1.0 200 OK\r\n\r\n<html>"] {
            assert!(parse::<GateAnswer>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn over_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate.sock");
        assert!(may_start(&path, Duration::from_secs(1)).is_err());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for question in ["GET /v1/gate ", "POST /v1/gate/leave ", "POST /v1/gate/stop "] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 256];
                let n = stream.read(&mut request).unwrap();
                assert!(request[..n].starts_with(question.as_bytes()));
                stream
                    .write_all(b"HTTP/1.0 200 OK\r\n\r\n{\"clear\":true,\"go\":true,\"text\":\"stored\"}")
                    .unwrap();
            }
        });
        assert!(may_start(&path, Duration::from_secs(5)).unwrap().clear);
        assert!(may_stop(&path, Duration::from_secs(5)).unwrap().go);
        let answer = before_stop(&path, Duration::from_secs(5)).unwrap();
        assert_eq!(answer.text, "stored");
        server.join().unwrap();
    }
}
