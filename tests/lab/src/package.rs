//! The files that a package adds to a Debian tree. They are installed once and then used as a layer of the
//! hosts' disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::cache;
use crate::cmd::Cmd;
use crate::tree::Suite;

/// Increase this whenever `make` below changes.
const RECIPE: u32 = 1;

/// A layer is made again for each change of the package, so old ones are removed this long after their last
/// use.
const KEPT: Duration = Duration::from_hours(24);

/// `apt-get` with a local file: there is no network, so its dependencies must be installed already.
pub(crate) const APT_INSTALL: &[&str] = &[
    "apt-get",
    "install",
    "-y",
    "-q",
    "--no-install-recommends",
    "--allow-downgrades",
    "--reinstall",
];

/// Runs in a mount namespace of its own, which removes the mounts however the script ends. Arguments: the
/// tree, the package, and the command that installs it.
const INSTALL: &str = "tree=$1 deb=$2; shift 2\n\
    mkdir upper work root\n\
    mount -t overlay overlay -o \"lowerdir=$tree,upperdir=upper,workdir=work\" root\n\
    mount -t proc proc root/proc\n\
    cp \"$deb\" root/root/package.deb\n\
    chroot root \"$@\" /root/package.deb\n\
    rm root/root/package.deb";

/// The layer that this package makes on the tree of this suite. It is made now if it does not exist.
pub(crate) fn layer(deb: &Path, suite: Suite, tree: &Path) -> Result<PathBuf> {
    let content = fs::read(deb).with_context(|| format!("reading {}", deb.display()))?;
    let recipe = format!(
        "{RECIPE} {} {:016x}",
        tree.display(),
        cache::fingerprint(&content)
    );
    let name = format!("package-{suite}");
    let entry = cache::entry(&name, &recipe, |dir| {
        cache::forget(&name, KEPT)?;
        make(deb, tree, dir)
    })?;
    // Marks the layer as used, however old it is: otherwise running hosts would lose the lower layer of their
    // disks.
    fs::File::open(&entry)?.set_modified(SystemTime::now())?;
    Ok(entry.join("upper"))
}

fn make(deb: &Path, tree: &Path, dir: &Path) -> Result<()> {
    Cmd::new("unshare")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .dir(dir)
        .args(["--mount", "--propagation", "private", "sh", "-ec", INSTALL, "sh"])
        .arg(tree)
        .arg(fs::canonicalize(deb)?)
        .args(APT_INSTALL)
        .deadline(Duration::from_mins(3))
        .ok()?;
    cache::remove_tree(&dir.join("work"))?;
    cache::remove_tree(&dir.join("root"))
}
