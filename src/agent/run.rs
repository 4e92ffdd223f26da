//! One life of the daemon: configuration, servers, the loop, signals.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Settings};
use crate::http::{self, PeerListener};
use crate::paths::Paths;
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

use super::{Agent, backups, build, copy, watchdog};

/// How long servers get to end what they are answering.
const GRACE: Duration = Duration::from_secs(2);

/// Why a life ended.
enum End {
    /// SIGHUP, and the new configuration is good.
    Reload(Box<Option<Settings>>),
    /// SIGTERM or SIGINT.
    Stop,
}

struct Signals {
    hang_up: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the end of this life; a bad new configuration is reported through `bad` and does not end it.
    async fn end(&mut self, paths: &Paths, bad: impl Fn(Option<String>)) -> End {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return End::Stop,
                _ = self.interrupt.recv() => return End::Stop,
                _ = self.hang_up.recv() => match config::load_here(paths) {
                    Ok(loaded) => {
                        bad(None);
                        tracing::info!("the configuration was read again");
                        return End::Reload(Box::new(loaded.map(|l| l.settings)));
                    }
                    Err(error) => {
                        let line = error.one_line();
                        tracing::error!("the old settings are kept: {line}");
                        bad(Some(line));
                    }
                },
            }
        }
    }
}

/// Runs the daemon until SIGTERM. An agent that is not configured touches nothing and waits for SIGHUP.
///
/// # Errors
/// A configuration that is wrong at the start, or sockets and state that cannot be opened.
pub async fn run(paths: Paths) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("cannot listen to signals")?;
    let counters = Arc::new(Counters::default());
    if let Some(line) = config::no_longer_read(&paths) {
        tracing::warn!("{line}");
    }
    let mut settings = config::load_here(&paths)?.map(|loaded| loaded.settings);
    watchdog::ready();
    loop {
        let end = match &settings {
            None => unconfigured(&paths, &mut signals).await?,
            Some(settings) => configured(&paths, settings, &counters, &mut signals).await?,
        };
        match end {
            End::Stop => {
                watchdog::stopping();
                return Ok(());
            }
            End::Reload(new) => settings = *new,
        }
    }
}

async fn unconfigured(paths: &Paths, signals: &mut Signals) -> anyhow::Result<End> {
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(http::serve_unconfigured(
        http::bind_admin(paths)?,
        shutdown.clone(),
    ));
    watchdog::say("not configured: run `etcd-agent init`, or write /etc/etcd-agent/config.toml and reload");
    tracing::info!("not configured: nothing is touched");
    let mut beat = tokio::time::interval(Duration::from_secs(10));
    let end = loop {
        tokio::select! {
            end = signals.end(paths, |error| if let Some(error) = error { watchdog::say(&error); }) => break end,
            _ = beat.tick() => watchdog::feed(),
        }
    };
    shutdown.cancel();
    let _ = tokio::time::timeout(GRACE, server).await;
    Ok(end)
}

async fn configured(
    paths: &Paths,
    settings: &Settings,
    counters: &Arc<Counters>,
    signals: &mut Signals,
) -> anyhow::Result<End> {
    let agent = build::agent(paths, settings, counters.clone())?;
    let shutdown = CancellationToken::new();
    let admin = http::bind_admin(paths)?;
    let gate = http::bind_gate(paths)?;
    let servers = serve(&agent, settings, counters, admin, gate, &shutdown);
    let copying = build::copy_stores(&agent, settings)
        .map(|(from, to)| tokio::spawn(copy::run(agent.clone(), from, to)));
    let end = tokio::select! {
        end = signals.end(paths, |error| agent.shared.with(|inner| inner.config_error.clone_from(&error))) => end,
        () = agent.run_loop() => End::Stop,
    };
    shutdown.cancel();
    backups::settled(&agent).await;
    if let Some(copying) = copying {
        copying.abort();
    }
    for server in servers {
        let _ = tokio::time::timeout(GRACE, server).await;
    }
    Ok(end)
}

fn serve(
    agent: &Agent,
    settings: &Settings,
    counters: &Arc<Counters>,
    admin: UnixListener,
    gate: UnixListener,
    shutdown: &CancellationToken,
) -> Vec<tokio::task::JoinHandle<()>> {
    let handle: Arc<dyn AgentHandle> = Arc::new(agent.clone());
    let mut servers = vec![
        tokio::spawn(http::serve_admin(
            admin,
            handle.clone(),
            counters.clone(),
            shutdown.clone(),
        )),
        tokio::spawn(http::serve_gate(gate, handle.clone(), shutdown.clone())),
    ];
    if let Some(listen) = settings.api.listen {
        let (tls, nodes) = (agent.tls.clone(), agent.spec.nodes.clone());
        let (counters, shutdown) = (counters.clone(), shutdown.clone());
        servers.push(tokio::spawn(async move {
            // The address may come up later than the agent.
            let listener = loop {
                match PeerListener::bind(listen, tls.clone(), nodes.clone()).await {
                    Ok(listener) => break listener,
                    Err(error) => tracing::error!("{error}"),
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            };
            http::serve_peers(listener, handle, counters, shutdown).await;
        }));
    }
    servers
}
