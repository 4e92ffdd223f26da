//! One connection to systemd, and what is read over it.

use std::time::Duration;

use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::names::{BusName, OwnedUniqueName};
use zbus::proxy::CacheProperties;
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, fdo, message};

use super::proxy::{ExecCommand, LoginProxy, ManagerProxy, ServiceProxy, UnitProxy};
use super::state::RawState;
use crate::unit::loaded::LoadedUnit;

/// systemd's name on the bus.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
/// The name of the bus itself. No other client can send under this name.
pub(super) const BUS: &str = "org.freedesktop.DBus";
/// The unit that the agent manages.
pub const ETCD: &str = "etcd.service";
/// How long one call may take. systemd answers in milliseconds, and queues a job without waiting for its end.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// A daemon-reload reads every unit file and runs every generator.
const RELOAD: Duration = Duration::from_mins(2);

/// A connection with its proxies.
#[derive(Debug, Clone)]
pub struct Live {
    connection: Connection,
    /// systemd.
    pub manager: ManagerProxy<'static>,
    unit: UnitProxy<'static>,
    service: ServiceProxy<'static>,
    pub(super) path: OwnedObjectPath,
}

impl Live {
    /// Connects to the system bus and loads `etcd.service`.
    ///
    /// # Errors
    /// Any error of zbus.
    pub async fn connect() -> zbus::Result<Self> {
        Self::connect_with(CALL).await
    }

    /// Like [`Live::connect`], for a caller that reloads systemd: its calls may take longer.
    ///
    /// # Errors
    /// Any error of zbus.
    pub async fn connect_to_reload() -> zbus::Result<Self> {
        Self::connect_with(RELOAD).await
    }

    async fn connect_with(deadline: Duration) -> zbus::Result<Self> {
        let connecting = Builder::system().method_timeout(deadline).build();
        let connection = timeout(CALL, connecting)
            .await
            .map_err(|_| zbus::Error::Failure("the system bus does not answer".to_owned()))??;
        let manager = ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let path = manager.load_unit(ETCD).await?;
        let unit = UnitProxy::builder(&connection)
            .path(path.clone())
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let service = ServiceProxy::builder(&connection)
            .path(path.clone())
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        Ok(Self {
            connection,
            manager,
            unit,
            service,
            path,
        })
    }

    /// Keeps systemd from unloading the unit while this connection lives. systemd forgets the timestamps of a unit
    /// that is down and not enabled, and with them that an operator has stopped it (`Unit.Ref` in
    /// org.freedesktop.systemd1(5)).
    pub(super) async fn keep_loaded(&self) -> zbus::Result<()> {
        self.unit.reference().await
    }

    /// logind, over the same connection.
    pub(super) async fn login(&self) -> zbus::Result<LoginProxy<'static>> {
        LoginProxy::builder(&self.connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await
    }

    /// Subscribes to the signals of [`ETCD`], of jobs and of systemd itself. Returns the stream of all
    /// messages that arrive, and systemd's unique name on the bus. Any client may send a signal, also to this
    /// connection alone, so only signals with that sender are systemd's.
    pub(super) async fn listen(&self) -> zbus::Result<(MessageStream, OwnedUniqueName)> {
        let stream = MessageStream::from(&self.connection);
        let bus = fdo::DBusProxy::new(&self.connection).await?;
        let signal = |sender: &'static str, interface: &'static str, member: &'static str| {
            MatchRule::builder()
                .msg_type(message::Type::Signal)
                .sender(sender)
                .interface(interface)
                .member(member)
        };
        let manager = "org.freedesktop.systemd1.Manager";
        let rules = [
            signal(SYSTEMD, "org.freedesktop.DBus.Properties", "PropertiesChanged")
                .path(self.path.as_ref())
                .build()?,
            signal(SYSTEMD, manager, "JobRemoved").build()?,
            signal(SYSTEMD, manager, "Reloading").build()?,
            // When systemd re-executes, it leaves and joins the bus, and forgets its subscribers.
            signal(BUS, BUS, "NameOwnerChanged").add_arg(SYSTEMD).build()?,
        ];
        for rule in rules {
            bus.add_match_rule(rule).await?;
        }
        // Ask for the owner after adding the match for its changes, so that no later change of owner is
        // missed.
        let owner = bus.get_name_owner(BusName::try_from(SYSTEMD)?).await?;
        self.manager.subscribe().await?;
        Ok((stream, owner))
    }

    /// Reads the properties that make up the unit's state.
    pub(super) async fn state(&self) -> zbus::Result<RawState> {
        let (active, sub, load, inactive_exit, active_exit, job, result, main_pid, main_code, main_exit) = tokio::try_join!(
            self.unit.active_state(),
            self.unit.sub_state(),
            self.unit.load_state(),
            self.unit.inactive_exit_timestamp_monotonic(),
            self.unit.active_exit_timestamp_monotonic(),
            self.unit.job(),
            self.service.result(),
            self.service.main_pid(),
            self.service.exec_main_code(),
            self.service.exec_main_exit_timestamp_monotonic(),
        )?;
        Ok(RawState {
            active,
            sub,
            load: load.into(),
            inactive_exit,
            active_exit,
            job: job.0,
            result,
            main_pid,
            main_code,
            main_exit,
        })
    }

    /// The unit as loaded.
    ///
    /// # Errors
    /// Any error of zbus.
    pub async fn loaded(&self) -> zbus::Result<LoadedUnit> {
        let argv = |commands: Vec<ExecCommand>| commands.into_iter().map(|command| command.1).collect();
        let (load_state, unit_file_state, need_daemon_reload, fragment_path, drop_in_paths) = tokio::try_join!(
            self.unit.load_state(),
            self.unit.unit_file_state(),
            self.unit.need_daemon_reload(),
            self.unit.fragment_path(),
            self.unit.drop_in_paths(),
        )?;
        let (user, environment, environment_files, unset_environment) = tokio::try_join!(
            self.service.user(),
            self.service.environment(),
            self.service.environment_files(),
            self.service.unset_environment(),
        )?;
        let (exec_start, exec_start_pre, exec_stop) = tokio::try_join!(
            self.service.exec_start(),
            self.service.exec_start_pre(),
            self.service.exec_stop(),
        )?;
        Ok(LoadedUnit {
            load_state: load_state.into(),
            unit_file_state,
            need_daemon_reload,
            fragment_path,
            drop_in_paths,
            user,
            environment,
            environment_files,
            unset_environment,
            exec_start: argv(exec_start),
            exec_start_pre: argv(exec_start_pre),
            exec_stop: argv(exec_stop),
        })
    }

    /// Whether files changed since systemd read them.
    pub(super) async fn need_daemon_reload(&self) -> zbus::Result<bool> {
        self.unit.need_daemon_reload().await
    }
}
