//! A host: systemd as PID 1 on an overlay of a Debian tree, with a network cable and a power switch.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cgroup::Cgroup;
use crate::cmd::{Cmd, Output, PATH};
use crate::daemon;
use crate::net::{Net, Shape};
use crate::package::APT_INSTALL;
use crate::place::Record;
use crate::wait::{wait_for, wait_until};

/// How long a host may take to boot or to shut down. A busy machine is slow; that is not a failure.
const POWER_TIMEOUT: Duration = Duration::from_secs(90);

/// One host of a lab; a cheap handle, usable from any thread.
#[derive(Debug, Clone)]
pub struct Host {
    number: u8,
    name: String,
    machine: String,
    dir: PathBuf,
    layers: Vec<PathBuf>,
    group: Cgroup,
    net: Net,
}

impl Host {
    pub(crate) fn new(record: &Record, net: &Net, number: u8) -> Self {
        let name = format!("n{number}");
        Self {
            number,
            machine: format!("{}-{name}", record.id),
            dir: record.dir().join(&name),
            layers: record.layers_of.get(&number).unwrap_or(&record.layers).clone(),
            group: Cgroup::new(format!("{}/{name}", record.id)),
            net: net.clone(),
            name,
        }
    }

    /// Its name, `n1` and so on: also its host name, under which the other hosts know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.net.address(self.number)
    }

    /// Its disk as seen from outside, whether it is on or off (without the file systems that it mounts
    /// itself, such as `/run`).
    pub fn disk(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// The file that systemd-nspawn and the host's console write to.
    pub fn console_log(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// Creates its disk: an overlay that survives power cycles and is removed with the lab.
    pub(crate) fn create(&self, hosts_file: &str) -> Result<()> {
        let (upper, work, root) = (self.dir.join("upper"), self.dir.join("work"), self.disk());
        for dir in [&upper, &work, &root] {
            fs::create_dir_all(dir)?;
        }
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|layer| layer.display().to_string())
            .collect();
        Cmd::new("mount")
            .args(["-t", "overlay", "overlay", "-o"])
            .arg(format!(
                "lowerdir={},upperdir={},workdir={}",
                layers.join(":"),
                upper.display(),
                work.display()
            ))
            .arg(&root)
            .ok()?;
        let machine_id = fs::read_to_string("/proc/sys/kernel/random/uuid")?.replace('-', "");
        fs::write(root.join("etc/machine-id"), machine_id)?;
        fs::write(root.join("etc/hostname"), format!("{}\n", self.name))?;
        fs::write(root.join("etc/hosts"), hosts_file)?;
        Ok(())
    }

    /// Switches it on and waits until it accepts commands. Returns how long that took.
    pub fn boot(&self) -> Result<Duration> {
        if self.is_on() {
            bail!("{} is on already", self.name);
        }
        let start = Instant::now();
        self.group.remove()?;
        if !self.cut_mark().exists() {
            self.net.heal(&self.name)?;
        }
        let argv = [
            "systemd-nspawn".to_owned(),
            "--quiet".to_owned(),
            format!("--directory={}", self.disk().display()),
            // The outer machine need not run systemd.
            "--register=no".to_owned(),
            "--keep-unit".to_owned(),
            "--boot".to_owned(),
            format!(
                "--network-namespace-path=/run/netns/{}",
                self.net.namespace(&self.name)
            ),
            format!("--machine={}", self.machine),
            format!("--hostname={}", self.name),
            "--resolv-conf=off".to_owned(),
            "--timezone=off".to_owned(),
            "--link-journal=no".to_owned(),
            "--console=pipe".to_owned(),
            // Without this capability systemd ignores PrivateNetwork=, on which the agent's oneshots rely.
            "--capability=CAP_NET_ADMIN".to_owned(),
        ];
        // On a machine that also has cgroup v1 ("hybrid"), nspawn would pass v1 to the host. systemd 257
        // calls that tainted and newer versions refuse it. Real hosts have only cgroup v2. The lock on the
        // directory would outlive a killed host as a file in /run.
        let env = [
            ("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1"),
            ("SYSTEMD_NSPAWN_LOCK", "0"),
        ];
        daemon::start(&self.group, &argv, &env, &self.console_log())?;
        // Not `is-system-running`: an etcd that waits for its quorum keeps the boot in the state "starting"
        // without end.
        wait_until(&format!("{} to boot", self.name), POWER_TIMEOUT, || {
            if self.group.processes().is_empty() && start.elapsed() > Duration::from_secs(3) {
                bail!("it is off; console: {}", self.console_tail());
            }
            let output = self.exec(&["systemctl", "is-active", "basic.target", "dbus.socket"])?;
            Ok(output.text() == "active\nactive")
        })
        .with_context(|| format!("console of {}: {}", self.name, self.console_tail()))?;
        Ok(start.elapsed())
    }

    fn console_tail(&self) -> String {
        let text = fs::read_to_string(self.console_log()).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(8).collect();
        tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.group.init().is_some()
    }

    /// Waits until its boot is complete and returns systemd's state: `running` or `degraded`.
    pub fn wait_booted(&self) -> Result<String> {
        wait_for(
            &format!("the boot of {} to complete", self.name),
            POWER_TIMEOUT,
            || {
                let state = self.exec(&["systemctl", "is-system-running"])?.text().to_owned();
                Ok(["running", "degraded"].contains(&state.as_str()).then_some(state))
            },
        )
    }

    /// Shuts it down in order, as a person would. Returns how long that took.
    pub fn power_off(&self) -> Result<Duration> {
        self.exec(&["systemctl", "poweroff"])?;
        let took = wait_until(&format!("{} to power off", self.name), POWER_TIMEOUT, || {
            Ok(self.group.processes().is_empty())
        })?;
        self.net.cut(&self.name)?;
        Ok(took)
    }

    /// Cuts its power: every process ends at once, and the disk is kept.
    ///
    /// The carrier is cut first, so that the other hosts receive nothing more, not even a closed connection.
    pub fn kill(&self) -> Result<()> {
        self.net.cut(&self.name)?;
        self.group.kill()
    }

    /// Shuts it down in order and switches it on again.
    pub fn reboot(&self) -> Result<Duration> {
        self.power_off()?;
        self.boot()
    }

    /// Pulls its network cable. The cable stays unplugged, also through power cycles, until [`Host::heal`].
    pub fn cut(&self) -> Result<()> {
        fs::write(self.cut_mark(), "")?;
        self.net.cut(&self.name)
    }

    /// Plugs its network cable in again.
    pub fn heal(&self) -> Result<()> {
        match fs::remove_file(self.cut_mark()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        if self.is_on() {
            self.net.heal(&self.name)
        } else {
            Ok(())
        }
    }

    /// A file records that the cable is unplugged, because several processes may use a lab.
    fn cut_mark(&self) -> PathBuf {
        self.dir.join("cable-is-out")
    }

    /// Makes its network cable bad until [`crate::Lab::heal_all`].
    pub fn shape(&self, shape: Shape) -> Result<()> {
        self.net.shape(&self.name, shape)
    }

    /// The PID of its init, as seen from outside.
    pub fn leader(&self) -> Result<u32> {
        self.group.init().with_context(|| format!("{} is off", self.name))
    }

    /// The command line that enters it from a shell of the outer machine.
    pub fn enter_command(&self) -> Result<Vec<String>> {
        let pid = self.leader()?;
        let words = format!("nsenter -t {pid} -a env -i PATH={PATH} HOME=/root LANG=C.UTF-8");
        Ok(words.split(' ').map(str::to_owned).collect())
    }

    /// A command inside: in the host if it is on, else on its disk (chroot).
    fn inside(&self) -> Cmd {
        match self.group.init() {
            Some(pid) => Cmd::new("nsenter").args(["-t", &pid.to_string(), "-a"]),
            None => Cmd::new("chroot").arg(self.disk()),
        }
    }

    /// Runs a program in the host as root, at most 60 s, and returns its output with any exit code.
    pub fn exec<S: AsRef<OsStr>>(&self, argv: &[S]) -> Result<Output> {
        self.exec_for(Duration::from_mins(1), argv)
    }

    /// [`Host::exec`] with another deadline.
    pub fn exec_for<S: AsRef<OsStr>>(&self, deadline: Duration, argv: &[S]) -> Result<Output> {
        let pid = self.leader()?;
        Cmd::new("nsenter")
            .args(["-t", &pid.to_string(), "-a"])
            .args(argv)
            .deadline(deadline)
            .run()
    }

    /// Runs a shell script in the host as root (`sh -ec`), at most 60 s, and returns its output with any exit
    /// code.
    pub fn sh(&self, script: &str) -> Result<Output> {
        self.exec(&["sh", "-ec", script])
    }

    /// Writes a file (temporary file, then rename) and creates its directory. `mode` is e.g. `0640`, `owner`
    /// e.g. `root:etcd`.
    pub fn write_file(&self, path: &str, content: impl Into<Vec<u8>>, mode: &str, owner: &str) -> Result<()> {
        let script = "mkdir -p \"$(dirname \"$1\")\"\n umask 077\n cat > \"$1.lab-new\"\n\
            chown \"$3\" \"$1.lab-new\"\n chmod \"$2\" \"$1.lab-new\"\n mv -f \"$1.lab-new\" \"$1\"";
        self.inside()
            .args(["sh", "-ec", script, "sh", path, mode, owner])
            .input(content)
            .ok()
            .with_context(|| format!("writing {path} on {}", self.name))?;
        Ok(())
    }

    /// A file's content.
    pub fn read_file(&self, path: &str) -> Result<String> {
        let output = self.inside().args(["cat", path]).ok();
        Ok(output
            .with_context(|| format!("reading {path} on {}", self.name))?
            .stdout)
    }

    /// Copies a file of the outer machine into the host, as `root:root 0644`.
    pub fn push(&self, local: &Path, remote: &str) -> Result<()> {
        let content = fs::read(local).with_context(|| format!("reading {}", local.display()))?;
        self.write_file(remote, content, "0644", "root:root")
    }

    /// Removes a path and its content, like an operator's `rm -rf`.
    pub fn wipe(&self, path: &str) -> Result<()> {
        if path.trim_matches('/').is_empty() || !path.starts_with('/') {
            bail!("refusing to wipe `{path}`");
        }
        // A program that still writes there may create a file between rm's listing and its rmdir.
        wait_until(
            &format!("{path} on {} to be removed", self.name),
            POWER_TIMEOUT,
            || {
                self.inside()
                    .args(["rm", "-rf", "--one-file-system", path])
                    .ok()?;
                Ok(true)
            },
        )?;
        Ok(())
    }

    /// Installs a local .deb with apt-get, on a host that is on or off.
    pub fn install_deb(&self, deb: &Path) -> Result<()> {
        let name = deb
            .file_name()
            .context("a .deb has a file name")?
            .to_string_lossy();
        let remote = format!("/root/{name}");
        self.push(deb, &remote)?;
        self.inside()
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(APT_INSTALL)
            .arg(&remote)
            .deadline(Duration::from_mins(3))
            .ok()
            .with_context(|| format!("installing {name} on {}", self.name))?;
        Ok(())
    }
}
