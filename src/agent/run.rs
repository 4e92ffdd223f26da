//! Runs the daemon: configuration, servers, the loop, signals.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backup;
use crate::config::{self, Loaded, Problems, Settings};
use crate::http::{self, MetricsListener, PeerListener, Reloads, Sockets};
use crate::model::{Backoff, EtcdVersion};
use crate::paths::Paths;
use crate::plan;
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

use super::build::{self, Parts};
use super::jobs::copy;
use super::jobs::flush;
use super::jobs::shutdown;
use super::state::{Carried, FirstLook};
use super::{Agent, watchdog};

/// How long servers may take to finish their pending answers.
const GRACE: Duration = Duration::from_secs(2);
/// How long `READY=1` and the answer to a reload wait for the first tick. A tick that fails for longer,
/// because state cannot be read, is an error of a running agent.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The pause between two attempts to listen at an address.
const LISTEN_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));

/// A configuration that was read.
struct Configuration {
    /// Valid settings and the parts that they name; `None` if there is no configuration file.
    wanted: Option<(Settings, Parts)>,
    /// [`config::digest`] of the files that were read.
    digest: String,
}

/// Why one run of the agent ended.
enum End {
    /// A reload was requested, and the new configuration is valid.
    Reload(Box<Configuration>),
    /// SIGTERM or SIGINT.
    Stop,
}

/// The sources of requests to end a run.
struct Asked {
    hang_up: Signal,
    terminate: Signal,
    interrupt: Signal,
    reloads: Arc<Reloads>,
    /// The newest reload that was begun.
    begun: u64,
}

impl Asked {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reloads: Arc::default(),
            begun: 0,
        })
    }

    /// Waits for the end of this run. An invalid new configuration, or one that `check` refuses, is reported through
    /// `bad` and does not end the run.
    async fn end(
        &mut self,
        paths: &Paths,
        check: impl Fn(&Loaded) -> Result<(), Problems>,
        bad: impl Fn(Option<String>),
    ) -> End {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return End::Stop,
                _ = self.interrupt.recv() => return End::Stop,
                _ = self.hang_up.recv() => self.begun = self.reloads.newest(),
                newest = self.reloads.asked(self.begun) => self.begun = newest,
            }
            match load(paths, &check) {
                Ok(configuration) => {
                    bad(None);
                    tracing::info!("the configuration was read again");
                    return End::Reload(Box::new(configuration));
                }
                Err(error) => {
                    let line = one_line(&error);
                    tracing::error!("the old settings are kept: {line}");
                    self.reloads.done(self.begun, Some(format!("{error:#}")));
                    bad(Some(line));
                }
            }
        }
    }

    /// Reports that the configuration is in force.
    fn in_force(&self) -> impl Future<Output = ()> + use<> {
        let (reloads, number) = (self.reloads.clone(), self.begun);
        async move {
            watchdog::ready();
            reloads.done(number, None);
        }
    }
}

fn load(paths: &Paths, check: impl Fn(&Loaded) -> Result<(), Problems>) -> anyhow::Result<Configuration> {
    let Some(loaded) = config::load_here(paths)? else {
        return Ok(Configuration {
            wanted: None,
            digest: config::no_files_digest(),
        });
    };
    check(&loaded)?;
    let parts = Parts::open(&loaded.settings)?;
    Ok(Configuration {
        wanted: Some((loaded.settings, parts)),
        digest: loaded.digest,
    })
}

/// Refuses a reload that sets what the etcd here would ignore. A start of the agent does not refuse it, because another
/// version of etcd may have been installed since.
fn check_reload(agent: &Agent, loaded: &Loaded) -> Result<(), Problems> {
    let running = agent.shared.with(|inner| {
        let seen = inner.last.observation()?;
        EtcdVersion::reported(&seen.me.etcd.known()?.version)
    });
    let Some(running) = running else {
        return Ok(());
    };
    loaded.refuse(plan::newly_ignored(&agent.spec, &loaded.settings.spec, running))
}

fn one_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Problems>() {
        Some(problems) => problems.one_line(),
        None => format!("{error:#}").replace('\n', "; "),
    }
}

/// Runs the daemon until SIGTERM. An agent that is not configured touches nothing and waits for a reload.
///
/// # Errors
/// A configuration that is wrong at the start, or sockets and state that cannot be opened.
pub async fn run(paths: Paths) -> anyhow::Result<()> {
    let mut asked = Asked::new().context("cannot listen to signals")?;
    let counters = Arc::new(Counters::default());
    if let Some(line) = config::no_longer_read(&paths) {
        tracing::warn!("{line}");
    }
    // `systemctl status` shows it after the end too, also to those who may not read the journal.
    let mut configuration = load(&paths, |_| Ok(())).inspect_err(|error| watchdog::say(&one_line(error)))?;
    let sockets = Arc::new(Sockets::bind(&paths)?);
    for dir in [paths.restore(), paths.verify()] {
        if let Err(error) = backup::remove_fetched(&dir).await {
            tracing::warn!("a former agent's snapshot in {} stays: {error}", dir.display());
        }
    }
    let mut carried = Carried::default();
    loop {
        asked.reloads.works_with(configuration.digest);
        let end = match configuration.wanted {
            None => unconfigured(&paths, &sockets, &mut asked).await,
            Some((settings, parts)) => {
                let agent = build::agent(&paths, &settings, &parts, counters.clone())?;
                if let Err(error) = build::record_api(&paths, &settings) {
                    tracing::warn!("a later loss of [api.tls] would not be noticed: {error}");
                }
                agent.shared.go_on(carried);
                let end = Box::pin(configured(
                    &paths, &settings, &parts, &agent, &sockets, &mut asked,
                ))
                .await?;
                carried = agent.shared.carry();
                end
            }
        };
        match end {
            End::Stop => {
                watchdog::stopping();
                return Ok(());
            }
            End::Reload(new) => configuration = *new,
        }
    }
}

async fn unconfigured(paths: &Paths, sockets: &Sockets, asked: &mut Asked) -> End {
    sockets.keep(&[], false);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(http::serve_unconfigured(
        sockets.admin(),
        asked.reloads.clone(),
        shutdown.clone(),
    ));
    asked.in_force().await;
    watchdog::say("not configured: run `etcd-agent init`, or write /etc/etcd-agent/config.toml and reload");
    tracing::info!("not configured: nothing is touched");
    let mut beat = tokio::time::interval(watchdog::BEAT);
    let end = loop {
        tokio::select! {
            end = asked.end(paths, |_| Ok(()), |error| if let Some(error) = error { watchdog::say(&error); }) => break end,
            _ = beat.tick() => watchdog::feed(),
        }
    };
    shutdown.cancel();
    let _ = timeout(GRACE, server).await;
    end
}

async fn configured(
    paths: &Paths,
    settings: &Settings,
    parts: &Parts,
    agent: &Agent,
    sockets: &Arc<Sockets>,
    asked: &mut Asked,
) -> anyhow::Result<End> {
    let shutdown = CancellationToken::new();
    let wanted: Vec<SocketAddr> = settings
        .api
        .listen
        .into_iter()
        .chain(settings.api.metrics)
        .chain(settings.api.fleet_lock)
        .collect();
    sockets.keep(&wanted, true);
    let servers = serve(agent, settings, parts, sockets, &asked.reloads, &shutdown)?;
    let copying = build::copy_stores(agent, settings)
        .map(|(from, to)| tokio::spawn(copy::run(agent.clone(), from, to)));
    let host_shutdown = tokio::spawn(shutdown::watch(agent.clone()));
    let (looks, in_force) = (agent.shared.clone(), asked.in_force());
    let notifier = tokio::spawn(async move {
        let _ = timeout(FIRST_LOOK, looks.until(FirstLook::Done)).await;
        in_force.await;
    });
    let end = tokio::select! {
        end = asked.end(
            paths,
            |loaded| check_reload(agent, loaded),
            |error| agent.shared.with(|inner| inner.config_error.clone_from(&error)),
        ) => end,
        () = agent.run_loop() => End::Stop,
    };
    notifier.abort();
    host_shutdown.abort();
    if matches!(end, End::Reload(_)) {
        watchdog::reloading();
    }
    shutdown.cancel();
    flush::settled(agent).await;
    if let Some(copying) = copying {
        copying.abort();
    }
    for server in servers {
        let _ = timeout(GRACE, server).await;
    }
    Ok(end)
}

fn serve(
    agent: &Agent,
    settings: &Settings,
    parts: &Parts,
    sockets: &Arc<Sockets>,
    reloads: &Arc<Reloads>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Vec<tokio::task::JoinHandle<()>>> {
    let handle: Arc<dyn AgentHandle> = Arc::new(agent.clone());
    let counters = &agent.counters;
    let mut servers = vec![
        tokio::spawn(http::serve_admin(
            sockets.admin(),
            handle.clone(),
            counters.clone(),
            reloads.clone(),
            shutdown.clone(),
        )),
        tokio::spawn(http::serve_gate(
            sockets.gate()?,
            handle.clone(),
            shutdown.clone(),
        )),
    ];
    if let Some(listen) = settings.api.listen {
        let (tls, nodes) = (parts.tls.clone(), agent.spec.nodes.clone());
        let (handle, counters) = (handle.clone(), counters.clone());
        let (sockets, shutdown) = (sockets.clone(), shutdown.clone());
        servers.push(tokio::spawn(async move {
            if let Some(listener) = listen_until(&sockets, listen, "api.listen", &shutdown).await {
                let listener = PeerListener::new(listener, tls, nodes);
                http::serve_peers(listener, handle, counters, shutdown).await;
            }
        }));
    }
    if let Some(listen) = settings.api.fleet_lock {
        let (handle, sockets, shutdown) = (handle.clone(), sockets.clone(), shutdown.clone());
        let groups = settings.api.lock_groups.clone();
        servers.push(tokio::spawn(async move {
            if let Some(listener) = listen_until(&sockets, listen, "reboot_lock.listen", &shutdown).await {
                http::serve_fleet_lock(listener, handle, groups, shutdown).await;
            }
        }));
    }
    if let Some(listen) = settings.api.metrics {
        let (counters, sockets, shutdown) = (counters.clone(), sockets.clone(), shutdown.clone());
        let tls = parts.tls.clone().filter(|_| settings.api.metrics_tls);
        let spec = &agent.spec;
        let names = std::iter::once(spec.node.to_string()).chain(spec.nodes.get(&spec.node).cloned());
        let names: Vec<String> = names.collect();
        servers.push(tokio::spawn(async move {
            if let Some(listener) = listen_until(&sockets, listen, "metrics.listen", &shutdown).await {
                let listener = MetricsListener::new(listener, tls, names);
                http::serve_metrics(listener, handle, counters, shutdown).await;
            }
        }));
    }
    Ok(servers)
}

/// Listens at this address, which may become available later than the agent starts. `None` when the agent
/// ends before that.
async fn listen_until(
    sockets: &Sockets,
    listen: SocketAddr,
    what: &str,
    shutdown: &CancellationToken,
) -> Option<Arc<TcpListener>> {
    let mut failures = 0u32;
    loop {
        match sockets.tcp(listen, what) {
            Ok(listener) => return Some(listener),
            Err(error) => tracing::error!("{error}"),
        }
        failures = failures.saturating_add(1);
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = sleep(LISTEN_BACKOFF.after(failures)) => {}
        }
    }
}
