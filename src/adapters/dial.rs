//! TCP connections to a name or an address. The lookup of the name is separate from the connection, because a
//! name that does not resolve says nothing about the host. Connection attempts to the addresses overlap (RFC
//! 8305), because the network may drop one address family.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};

/// How long a lookup may take.
const LOOKUP: Duration = Duration::from_secs(2);
/// How long to wait for one address before trying the next one concurrently (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);
/// How long a living host takes at most to accept a connection. Its kernel does that, however busy its processes
/// are; a round trip around the world takes less than 300 ms.
const ACCEPTS: Duration = Duration::from_millis(400);
/// How many addresses of one name are tried at most.
const MOST: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// This host could not ask: the name does not resolve, there is no route, or no file descriptor is left.
    /// This says nothing about the other side.
    #[error("{0}")]
    Unasked(String),
    /// The other side was asked and does not answer.
    #[error(transparent)]
    Silent(io::Error),
}

impl From<DialError> for io::Error {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Unasked(why) => Self::other(why),
            DialError::Silent(error) => error,
        }
    }
}

/// Connects to the first address of `host` that accepts the connection. Only the lookup has a deadline.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, DialError> {
    connect(&lookup(host, port).await?).await
}

/// The addresses of a host name or an IP address.
pub(crate) async fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let unasked = |why: String| DialError::Unasked(format!("the name {host} does not resolve: {why}"));
    let found = timeout(LOOKUP, lookup_host((host, port)))
        .await
        .map_err(|_| unasked(format!("no answer within {} s", LOOKUP.as_secs())))?
        .map_err(|error| unasked(error.to_string()))?;
    let addresses = interleaved(found);
    if addresses.is_empty() {
        return Err(unasked("it has no address".to_owned()));
    }
    Ok(addresses)
}

/// Connects to the first of these addresses that accepts the connection. It tries the next address after the
/// previous one has failed, or has not answered within [`STAGGER`].
pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    let mut waiting = addresses.iter();
    let mut running = FuturesUnordered::new();
    let (mut silent, mut unasked) = (None, None);
    loop {
        match waiting.next() {
            Some(next) => running.push(TcpStream::connect(*next)),
            None if running.is_empty() => break,
            None => {}
        }
        let more = waiting.len() > 0;
        tokio::select! {
            Some(ended) = running.next() => match ended {
                Ok(stream) => return Ok(stream),
                Err(error) if is_silence(&error) => silent = Some(error),
                Err(error) => unasked = Some(error),
            },
            () = sleep(STAGGER), if more => {}
        }
    }
    // The result is silence if at least one address was asked: a host without IPv6 has no route to half of
    // the addresses.
    match (silent, unasked) {
        (Some(error), _) => Err(DialError::Silent(error)),
        (None, Some(error)) => Err(DialError::Unasked(error.to_string())),
        (None, None) => Err(DialError::Unasked("there is no address".to_owned())),
    }
}

/// Like [`connect`], within the time that a living host needs to accept a connection.
pub(crate) async fn reach(addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    let others = addresses.len().saturating_sub(1).min(MOST);
    let within = ACCEPTS + STAGGER * u32::try_from(others).unwrap_or(0);
    timeout(within, connect(addresses)).await.unwrap_or_else(|_| {
        let text = format!("no connection within {} ms", within.as_millis());
        Err(DialError::Silent(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

/// Whether the peer caused an error: nothing listens, or nothing comes back. This host causes all other
/// errors (no route, no file descriptor, no port, no permission).
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::TimedOut
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
    )
}

/// Alternates the two address families, and keeps the resolver's order within each, which is best first.
fn interleaved(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let all: Vec<SocketAddr> = found.take(MOST).collect();
    let first = all.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|address| address.is_ipv6() == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut addresses = Vec::new();
    loop {
        let (a, b) = (one.next(), other.next());
        if a.is_none() && b.is_none() {
            return addresses;
        }
        addresses.extend(a.into_iter().chain(b));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// An address of this host that neither accepts nor refuses a connection, because its queue is full. Its
    /// queue stays full until the second returned value is dropped.
    pub(crate) async fn black_hole() -> (SocketAddr, impl Sized) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // Linux queues one more connection than the configured backlog.
        let first = TcpStream::connect(address).await.unwrap();
        let second = tokio::spawn(TcpStream::connect(address));
        (address, (listener, first, second))
    }

    #[tokio::test]
    async fn b01_a_name_with_a_black_holed_and_a_good_address_connects() {
        let (hole, _kept) = black_hole().await;
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [hole, good.local_addr().unwrap()];
        let stream = timeout(Duration::from_secs(2), connect(&addresses)).await;
        let stream = stream.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
    }

    #[tokio::test]
    async fn b01_what_this_host_cannot_do_is_not_the_others_silence() {
        let error = dial("no-such.invalid", 2379).await.unwrap_err();
        assert!(matches!(error, DialError::Unasked(_)), "{error}");
        assert!(error.to_string().contains("does not resolve"), "{error}");
        // The port is closed, and the host refuses the connection. That counts as silence of the peer.
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let error = connect(&[free]).await.unwrap_err();
        assert!(matches!(error, DialError::Silent(_)), "{error}");
        for (errno, silent) in [
            (rustix::io::Errno::MFILE, false),
            (rustix::io::Errno::NFILE, false),
            (rustix::io::Errno::NETUNREACH, false),
            (rustix::io::Errno::ADDRNOTAVAIL, false),
            (rustix::io::Errno::ACCESS, false),
            (rustix::io::Errno::PERM, false),
            (rustix::io::Errno::NOBUFS, false),
            (rustix::io::Errno::CONNREFUSED, true),
            (rustix::io::Errno::HOSTUNREACH, true),
            (rustix::io::Errno::TIMEDOUT, true),
            (rustix::io::Errno::CONNRESET, true),
        ] {
            assert_eq!(is_silence(&errno.into()), silent, "{errno:?}");
        }
    }

    #[test]
    fn families_take_turns() {
        let parse = |all: &[&str]| {
            all.iter()
                .map(|one| one.parse().unwrap())
                .collect::<Vec<SocketAddr>>()
        };
        let found = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1"]);
        let expected = parse(&["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(interleaved(found.into_iter()), expected);
    }
}
