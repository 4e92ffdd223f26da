//! The D-Bus calls that the command line itself makes to systemd.

use super::exit::Failure;
use crate::adapters::systemd::live::Live;
use crate::adapters::systemd::proxy::{ServiceProxy, UnitProxy};

const AGENT: &str = "etcd-agent.service";

/// Makes the agent read its configuration again, or starts it.
pub(super) async fn reload_agent() -> Result<(), Failure> {
    let ask = async {
        let live = Live::connect().await?;
        live.manager.reload_or_restart_unit(AGENT, "replace").await
    };
    ask.await.map(drop).map_err(|error| {
        Failure::failed(format!(
            "the configuration is written, but systemd could not be asked to reload the agent ({error}): \
             `systemctl reload-or-restart etcd-agent`"
        ))
    })
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
    let path = manager.load_unit(unit).await?;
    let unit = UnitProxy::builder(manager.inner().connection())
        .path(path)
        .build()
        .await?;
    unit.active_state().await
}
