//! One question to the running agent: `GET /v1/gate` on its socket, blocking and bounded.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

/// What the agent answers.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct GateAnswer {
    /// Whether the assignment's epoch is confirmed.
    pub clear: bool,
    /// What is waited for.
    pub text: String,
}

const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Asks. HTTP/1.0, so that the answer ends with the connection and never comes in chunks.
///
/// # Errors
/// No agent listens, it does not answer within `deadline` (per read), or not in this form.
pub(super) fn ask(socket: &Path, deadline: Duration) -> io::Result<GateAnswer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    stream.write_all(b"GET /v1/gate HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    parse(&answer)
}

fn parse(answer: &str) -> io::Result<GateAnswer> {
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
            parse(good).unwrap(),
            GateAnswer {
                clear: false,
                text: "n2".to_owned()
            }
        );
        for bad in ["", "HTTP/1.0 503 Busy\r\n\r\n{}", "HTTP/1.0 200 OK\r\n\r\n<html>"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn over_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate.sock");
        assert!(ask(&path, Duration::from_secs(1)).is_err());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let n = stream.read(&mut request).unwrap();
            assert!(request[..n].starts_with(b"GET /v1/gate "));
            stream
                .write_all(b"HTTP/1.0 200 OK\r\n\r\n{\"clear\":true,\"text\":\"\"}")
                .unwrap();
        });
        assert!(ask(&path, Duration::from_secs(5)).unwrap().clear);
        server.join().unwrap();
    }
}
