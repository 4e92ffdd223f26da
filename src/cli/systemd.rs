//! The D-Bus calls that the command line itself makes to systemd.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zbus::proxy::CacheProperties;

use super::exit::Failure;
use crate::adapters::systemd::live::Live;
use crate::adapters::systemd::proxy::{ManagerProxy, ServiceProxy, UnitProxy};

const AGENT: &str = "etcd-agent.service";
/// How long a job of the agent is waited for, and how often it is looked at.
const JOB: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(50);

/// Makes the agent read its configuration again, or starts it, and waits for systemd's job. It is enabled first: the
/// presets of Fedora and SUSE enable no service.
pub(super) async fn enable_and_reload_agent() -> Result<(), Failure> {
    let ask = async {
        let manager = Live::connect().await?.manager;
        if manager.get_unit_file_state(AGENT).await? == "disabled" {
            manager.enable_unit_files(&[AGENT], false, false).await?;
            manager.reload().await?;
        }
        manager.reload_or_restart_unit(AGENT, "replace").await?;
        let unit = unit(&manager, AGENT).await?;
        let until = Instant::now() + JOB;
        while unit.job().await?.0 != 0 && Instant::now() < until {
            sleep(EVERY).await;
        }
        zbus::Result::Ok(())
    };
    ask.await.map_err(|error| {
        Failure::failed(format!(
            "the configuration is written, but systemd could not be asked to reload the agent ({error}): \
             `systemctl enable etcd-agent`, then `systemctl reload-or-restart etcd-agent`"
        ))
    })
}

/// A unit, whose properties are asked for each time.
async fn unit(manager: &ManagerProxy<'static>, name: &str) -> zbus::Result<UnitProxy<'static>> {
    UnitProxy::builder(manager.inner().connection())
        .path(manager.load_unit(name).await?)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// Stops a unit; does not wait for the job.
pub(super) async fn stop(unit: &str) -> zbus::Result<()> {
    let manager = Live::connect().await?.manager;
    manager.stop_unit(unit, "replace").await.map(drop)
}

/// `MainPID` of a service.
pub(super) async fn main_pid(unit: &str) -> zbus::Result<u32> {
    let manager = Live::connect().await?.manager;
    let path = manager.load_unit(unit).await?;
    let service = ServiceProxy::builder(manager.inner().connection())
        .path(path)
        .build()
        .await?;
    service.main_pid().await
}

/// `ActiveState` of a unit.
pub(super) async fn active_state(unit: &str) -> zbus::Result<String> {
    let manager = Live::connect().await?.manager;
    self::unit(&manager, unit).await?.active_state().await
}
