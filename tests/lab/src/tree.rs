//! The root file systems that hosts boot from: one Debian tree per suite, read-only once made.

use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::cmd::Cmd;
use crate::machine;

/// Increase this whenever `make` below changes, so that trees are made again.
const RECIPE: u32 = 1;

/// `polkitd` needs a logind provider, hence `libpam-systemd`. The hosts have no network to the outside, so
/// possible dependencies of our package are also included.
const PACKAGES: &str = "systemd,systemd-sysv,libpam-systemd,dbus,polkitd,iproute2,nftables,iputils-ping,\
    procps,adduser,ca-certificates,curl,openssl,etcd-server,etcd-client";

/// Units that only take time, or that touch the network, which the lab sets up from the outside.
const MASKED: &[&str] = &[
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-networkd-wait-online.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
    "systemd-firstboot.service",
    "ldconfig.service",
    "systemd-journal-catalog-update.service",
    "console-getty.service",
    "getty@.service",
];

/// A Debian release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Debian 13, systemd 257: the default.
    Trixie,
    /// Debian 12, systemd 252: the oldest systemd that must work.
    Bookworm,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trixie => "trixie",
            Self::Bookworm => "bookworm",
        })
    }
}

impl FromStr for Suite {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "trixie" => Ok(Self::Trixie),
            "bookworm" => Ok(Self::Bookworm),
            other => bail!("unknown suite `{other}`: trixie or bookworm"),
        }
    }
}

/// The tree of a suite. It is made now if it does not exist.
pub(crate) fn ensure(suite: Suite) -> Result<PathBuf> {
    let recipe = format!("{RECIPE} {suite} {PACKAGES} {MASKED:?}");
    cache::entry(&format!("tree-{suite}"), &recipe, |dir| make(suite, dir))
}

fn make(suite: Suite, dir: &Path) -> Result<()> {
    Cmd::new("debootstrap")
        .caller_env()
        .arg("--variant=minbase")
        .arg(format!("--include={PACKAGES}"))
        .arg(suite.to_string())
        .arg(dir)
        .arg(machine::mirror())
        .deadline(Duration::from_mins(25))
        .ok()?;
    // Each test configures etcd; an etcd that starts by itself would leave data behind.
    Cmd::new("chroot")
        .arg(dir)
        .args(["systemctl", "disable", "etcd.service"])
        .ok()?;
    for unit in MASKED {
        let link = dir.join("etc/systemd/system").join(unit);
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link)?;
        }
        symlink("/dev/null", &link).with_context(|| format!("masking {unit}"))?;
    }
    let default_data = dir.join("var/lib/etcd/default");
    if default_data.exists() && fs::read_dir(&default_data)?.next().is_some() {
        bail!(
            "{} is not empty: an etcd ran while the tree was made",
            default_data.display()
        );
    }
    // Persistent, so that the journal of a killed host can be read from outside.
    let journald = dir.join("etc/systemd/journald.conf.d");
    fs::create_dir_all(&journald)?;
    fs::write(
        journald.join("lab.conf"),
        "[Journal]\nStorage=persistent\nSyncIntervalSec=1s\nRateLimitIntervalSec=0\nSystemMaxUse=256M\n",
    )?;
    fs::create_dir_all(dir.join("var/log/journal"))?;
    fs::write(dir.join("etc/machine-id"), "")?;
    for stale in ["var/lib/apt/lists", "var/cache/apt"] {
        cache::remove_tree(&dir.join(stale))?;
    }
    fs::create_dir_all(dir.join("var/lib/apt/lists/partial"))?;
    fs::create_dir_all(dir.join("var/cache/apt/archives/partial"))?;
    if fs::metadata(dir.join("usr/bin/etcd"))?.uid() != 0 {
        bail!("the tree's etcd is not root's");
    }
    Ok(())
}
