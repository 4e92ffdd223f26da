//! A slow network between hosts that also works on kernels without `sch_netem`.
//!
//! Connections of a host's services (every process that is not root's) to other hosts or the outside go
//! through a relay in the host's own network namespace, which delays each byte in both directions. Existing
//! connections are reset, so that they are made again through the relay.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cmd::Cmd;
use crate::lab::Lab;
use crate::outside;

/// Bytes read in one go.
const CHUNK: usize = 16 * 1024;

/// The limit of delayed chunks in one direction of one connection.
const UNDER_WAY: usize = 256;

/// The timeout of a connection to the other end.
const CONNECT: Duration = Duration::from_secs(10);

/// The network stays slow until this is dropped. Dropping also ends the connections that went through the
/// relays.
#[derive(Debug)]
pub struct Slow {
    _relays: Vec<Relay>,
}

#[derive(Debug)]
struct Relay {
    namespace: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Lab {
    /// Makes the network between all hosts slow: each byte is delayed by `delay`, so a round trip takes twice
    /// that. Traffic from outside clients to the hosts is not delayed.
    pub fn slow(&self, delay: Duration) -> Result<Slow> {
        let names = self.hosts().iter().map(|host| self.net().namespace(host.name()));
        let relays = names.map(|namespace| Relay::start(namespace, delay));
        Ok(Slow {
            _relays: relays.collect::<Result<_>>()?,
        })
    }
}

impl Relay {
    fn start(namespace: String, delay: Duration) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (tell, listens) = std::sync::mpsc::channel();
        let within = namespace.clone();
        let thread = std::thread::Builder::new()
            .name("lab-relay".to_owned())
            .spawn(move || {
                outside::enter(&within)?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                    tell.send(listener.local_addr()?.port())?;
                    tokio::select! {
                        result = serve(&listener, delay) => result,
                        _ = stopped => Ok(()),
                    }
                })
            })?;
        let relay = Self {
            namespace,
            stop: Some(stop),
            thread: Some(thread),
        };
        let port = listens.recv().context("the relay did not start")?;
        relay.nft(&redirect(port))?;
        Ok(relay)
    }

    fn nft(&self, rules: &str) -> Result<()> {
        Cmd::new("ip")
            .args(["netns", "exec", &self.namespace, "nft", "-f", "-"])
            .input(rules)
            .ok()
            .context("nft in a host's network")?;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let undone = self.nft("delete table inet lab_slow");
        self.stop.take();
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => return Err(anyhow!("the relay panicked")),
            Some(Ok(result)) => result?,
            None => {}
        }
        undone
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("lab: ending the slow network of {}: {error:#}", self.namespace);
        }
    }
}

/// The relay itself runs as root, so its traffic is not redirected to it. An old connection is recognized
/// because it still goes directly to its address: a new one is redirected to the relay, and a server's
/// answers are not in a connection's original direction.
fn redirect(port: u16) -> String {
    format!(
        "table inet lab_slow {{
           chain to_relay {{
             type nat hook output priority -100;
             ip daddr 10.77.0.0/16 oifname \"eth0\" meta skuid != 0 meta l4proto tcp redirect to :{port}
           }}
           chain old {{
             type filter hook output priority 0;
             ip daddr 10.77.0.0/16 oifname \"eth0\" meta skuid != 0 ct direction original meta l4proto tcp reject with tcp reset
           }}
         }}"
    )
}

async fn serve(listener: &TcpListener, delay: Duration) -> Result<()> {
    loop {
        let (from, _) = listener.accept().await?;
        let Ok(to) = original(&from) else {
            continue;
        };
        // An error here breaks only this connection, and both ends see that.
        tokio::spawn(async move { relay(from, to, delay).await });
    }
}

/// The original destination of a redirected connection.
fn original(stream: &TcpStream) -> Result<SocketAddrV4> {
    rustix::net::sockopt::ip_original_dst(stream).context("SO_ORIGINAL_DST")
}

async fn relay(from: TcpStream, to: SocketAddrV4, delay: Duration) -> Result<()> {
    sleep(delay).await;
    let onward = timeout(CONNECT, TcpStream::connect(to)).await??;
    onward.set_nodelay(true)?;
    from.set_nodelay(true)?;
    let (from_read, from_write) = from.into_split();
    let (to_read, to_write) = onward.into_split();
    // Each direction ends by itself, so that a half-closed connection stays half-closed. An error ends both
    // directions.
    tokio::try_join!(pump(from_read, to_write, delay), pump(to_read, from_write, delay))?;
    Ok(())
}

/// One direction: bytes leave `delay` after they arrived.
async fn pump(
    mut read: tokio::net::tcp::OwnedReadHalf,
    mut write: tokio::net::tcp::OwnedWriteHalf,
    delay: Duration,
) -> Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let take = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            let size = read.read(&mut chunk).await?;
            chunk.truncate(size);
            if size == 0 || sender.send((Instant::now() + delay, chunk)).await.is_err() {
                return anyhow::Ok(());
            }
        }
    };
    let give = async move {
        while let Some((at, chunk)) = receiver.recv().await {
            sleep_until(at).await;
            write.write_all(&chunk).await?;
        }
        write.shutdown().await?;
        anyhow::Ok(())
    };
    tokio::try_join!(take, give)?;
    Ok(())
}
