//! Debian packages as a layer on a tree: needrestart on hosts, what Ansible, Puppet or dnf need there to install and
//! configure the agent, and lintian, which runs on no host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::cache;
use crate::cmd::Cmd;
use crate::tree::{self, Suite};

/// Increase this whenever `make` below changes.
const RECIPE: u32 = 1;

/// A tool that installs and configures the agent on hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// Runs on the outer machine, and reaches the hosts by SSH. Its modules need Python on them.
    Ansible,
    /// Runs on the hosts.
    Puppet,
    /// Runs on the hosts, which are shaped like Fedora.
    Dnf,
}

impl Manager {
    pub(crate) const ALL: [Self; 3] = [Self::Ansible, Self::Puppet, Self::Dnf];

    /// The hosts' Debian. Ansible of Debian 12 does not know the Python of Debian 13; with Puppet there is a
    /// test on either.
    pub(crate) fn suite(self) -> Suite {
        match self {
            Self::Ansible => Suite::Bookworm,
            Self::Puppet | Self::Dnf => Suite::Trixie,
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Ansible => &["openssh-server", "python3", "python3-apt"],
            Self::Puppet => &["puppet-agent"],
            Self::Dnf => &["createrepo-c", "dnf", "rpm"],
        }
    }
}

/// Runs in a mount namespace of its own, which removes the mounts however the script ends. Arguments: the
/// tree and the packages. No daemon of Puppet's runs: the tests run `puppet apply`.
const INSTALL: &str = "tree=$1; shift\n\
    mkdir upper work root\n\
    mount -t overlay overlay -o \"lowerdir=$tree,upperdir=upper,workdir=work\" root\n\
    mount -t proc proc root/proc\n\
    chroot root apt-get update -q\n\
    chroot root apt-get install -y -q --no-install-recommends \"$@\"\n\
    chroot root apt-get clean\n\
    find root/var/lib/apt/lists -type f -delete\n\
    test ! -e root/usr/lib/systemd/system/puppet.service -a ! -e root/lib/systemd/system/puppet.service ||\n\
    chroot root systemctl mask puppet.service";

/// What this tool needs on hosts. It is made now if it does not exist.
pub(crate) fn layer(manager: Manager) -> Result<PathBuf> {
    of_packages(manager.suite(), manager.packages())
}

/// Of Molecule, the newest that knows the Ansible of Debian 12.
const MOLECULE: &str = "molecule==6.0.3";

/// The Python with Molecule and the Ansible of this machine. It is made now if it does not exist.
pub fn molecule() -> Result<PathBuf> {
    let entry = cache::entry("molecule", MOLECULE, |dir| {
        let python = Cmd::new("/usr/bin/python3").caller_env();
        python
            .args(["-m", "venv", "--system-site-packages"])
            .arg(dir)
            .ok()?;
        let pip = Cmd::new(dir.join("bin/pip")).caller_env();
        let install = ["install", "--quiet", "--no-cache-dir", MOLECULE];
        pip.args(install).deadline(Duration::from_mins(10)).ok().map(drop)
    })?;
    Ok(entry.join("bin/python"))
}

/// needrestart on hosts with this Debian release. It is made now if it does not exist.
pub(crate) fn needrestart(suite: Suite) -> Result<PathBuf> {
    of_packages(suite, &["needrestart"])
}

/// lintian of this Debian release. It is made now if it does not exist.
pub(crate) fn lintian(suite: Suite) -> Result<PathBuf> {
    of_packages(suite, &["lintian"])
}

/// The layer that the packages make on the tree of this suite.
fn of_packages(suite: Suite, packages: &[&str]) -> Result<PathBuf> {
    let tree = tree::ensure(suite)?;
    let recipe = format!("{RECIPE} {} {packages:?}", tree.display());
    let name = format!("managed-{suite}");
    let entry = cache::entry(&name, &recipe, |dir| make(packages, &tree, dir))?;
    Ok(entry.join("upper"))
}

fn make(packages: &[&str], tree: &Path, dir: &Path) -> Result<()> {
    Cmd::new("unshare")
        .caller_env()
        .env("DEBIAN_FRONTEND", "noninteractive")
        .dir(dir)
        .args(["--mount", "--propagation", "private", "sh", "-ec", INSTALL, "sh"])
        .arg(tree)
        .args(packages)
        .deadline(Duration::from_mins(10))
        .ok()?;
    cache::remove_tree(&dir.join("work"))?;
    cache::remove_tree(&dir.join("root"))
}
