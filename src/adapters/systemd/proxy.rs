//! The parts of systemd's D-Bus interfaces that the agent uses (`org.freedesktop.systemd1(5)`,
//! `org.freedesktop.login1(5)`).

// The macro generates code without doc comments.
#![allow(missing_docs)]

use zbus::{OwnedFd, OwnedObjectPath};

/// One `ExecStart=` command as returned over D-Bus: path, argv, ignore errors, four timestamps, PID, code,
/// status.
pub type ExecCommand = (String, Vec<String>, bool, u64, u64, u64, u64, u32, i32, i32);

/// systemd itself.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
pub trait Manager {
    #[zbus(property)]
    fn version(&self) -> zbus::Result<String>;
    /// `Environment`: the environment that all services get.
    #[zbus(property)]
    fn environment(&self) -> zbus::Result<Vec<String>>;
    /// `SystemState`: `stopping` while the host shuts down. systemd sends no signal when it changes.
    #[zbus(property(emits_changed_signal = "false"))]
    fn system_state(&self) -> zbus::Result<String>;
    fn subscribe(&self) -> zbus::Result<()>;
    fn load_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    #[zbus(name = "GetUnitByPID")]
    fn get_unit_by_pid(&self, pid: u32) -> zbus::Result<OwnedObjectPath>;
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn reload_or_restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
    fn reload(&self) -> zbus::Result<()>;
    fn get_unit_file_state(&self, name: &str) -> zbus::Result<String>;
    fn enable_unit_files(
        &self,
        files: &[&str],
        runtime: bool,
        force: bool,
    ) -> zbus::Result<(bool, Vec<(String, String, String)>)>;
}

/// logind.
#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
pub trait Login {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> zbus::Result<u64>;
    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;
}

/// Any unit.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1"
)]
pub trait Unit {
    #[zbus(name = "Ref")]
    fn reference(&self) -> zbus::Result<()>;
    #[zbus(property)]
    fn active_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn sub_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn load_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn unit_file_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn fragment_path(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn drop_in_paths(&self) -> zbus::Result<Vec<String>>;
    #[zbus(property)]
    fn need_daemon_reload(&self) -> zbus::Result<bool>;
    #[zbus(property)]
    fn inactive_exit_timestamp_monotonic(&self) -> zbus::Result<u64>;
    #[zbus(property)]
    fn active_exit_timestamp_monotonic(&self) -> zbus::Result<u64>;
    #[zbus(property)]
    fn job(&self) -> zbus::Result<(u32, OwnedObjectPath)>;
}

/// A service unit.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Service",
    default_service = "org.freedesktop.systemd1"
)]
pub trait Service {
    #[zbus(property)]
    fn result(&self) -> zbus::Result<String>;
    #[zbus(property, name = "MainPID")]
    fn main_pid(&self) -> zbus::Result<u32>;
    #[zbus(property)]
    fn exec_main_code(&self) -> zbus::Result<i32>;
    #[zbus(property)]
    fn exec_main_exit_timestamp_monotonic(&self) -> zbus::Result<u64>;
    #[zbus(property)]
    fn user(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn environment(&self) -> zbus::Result<Vec<String>>;
    #[zbus(property)]
    fn environment_files(&self) -> zbus::Result<Vec<(String, bool)>>;
    #[zbus(property)]
    fn unset_environment(&self) -> zbus::Result<Vec<String>>;
    #[zbus(property)]
    fn exec_start(&self) -> zbus::Result<Vec<ExecCommand>>;
    #[zbus(property)]
    fn exec_start_pre(&self) -> zbus::Result<Vec<ExecCommand>>;
    #[zbus(property)]
    fn exec_stop(&self) -> zbus::Result<Vec<ExecCommand>>;
}
