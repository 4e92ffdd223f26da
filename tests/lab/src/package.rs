//! What a package adds to a Debian tree: installed once, and a layer of the hosts' disks from then on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::cache;
use crate::cmd::Cmd;
use crate::tree::Suite;

/// Raise it whenever `make` below changes.
const RECIPE: u32 = 1;

/// What is built anew with each change is not kept for ever after its last use.
const KEPT: Duration = Duration::from_hours(24);

/// `apt-get` with a local file: there is no network, what it depends on must be there already.
pub(crate) const APT_INSTALL: &[&str] = &[
    "apt-get",
    "install",
    "-y",
    "-q",
    "--no-install-recommends",
    "--allow-downgrades",
    "--reinstall",
];

/// In a mount namespace of its own, which takes the mounts with it however this ends. Arguments: the tree, the
/// package, and what installs it.
const INSTALL: &str = "tree=$1 deb=$2; shift 2\n\
    mkdir upper work root\n\
    mount -t overlay overlay -o \"lowerdir=$tree,upperdir=upper,workdir=work\" root\n\
    mount -t proc proc root/proc\n\
    cp \"$deb\" root/root/package.deb\n\
    chroot root \"$@\" /root/package.deb\n\
    rm root/root/package.deb";

/// The layer that this package makes on the tree of this suite, made now if it is not there.
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
    // What is used is not old, whenever it was made: hosts that run from it would lose their disks' floor.
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
