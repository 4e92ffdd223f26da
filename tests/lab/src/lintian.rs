//! lintian of a Debian release, which may differ from that of this machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cmd::{Cmd, Output};
use crate::managed;
use crate::tree::{self, Suite};

/// lintian works for half a minute if the machine has nothing else to do, and it is run at idle priority.
const WITHIN: Duration = Duration::from_mins(30);

/// Runs in a mount namespace of its own, which removes the mounts however the script ends. The files that lintian
/// unpacks are in the upper directory. Arguments: the layers, the directory of the package, its file name.
const RUN: &str = "layers=$1 dir=$2 name=$3\n\
    work=$(mktemp -d -p /var/tmp)\n\
    trap 'umount -R \"$work/root\" 2>/dev/null || true; rm -rf --one-file-system \"$work\"' EXIT\n\
    mkdir \"$work/upper\" \"$work/work\" \"$work/root\"\n\
    mount -t overlay overlay -o \"lowerdir=$layers,upperdir=$work/upper,workdir=$work/work\" \"$work/root\"\n\
    mount -t proc proc \"$work/root/proc\"\n\
    mount --bind -o ro \"$dir\" \"$work/root/mnt\"\n\
    chroot \"$work/root\" lintian --allow-root --tag-display-limit 0 --fail-on error,warning \"/mnt/$name\"";

/// The output of lintian on this package, a `.deb` or a `.dsc`. Its exit code is not 0 if there are errors or warnings.
///
/// # Errors
/// The package does not exist, or lintian could not be run.
pub fn lintian(suite: Suite, package: &Path) -> Result<Output> {
    let package = package
        .canonicalize()
        .with_context(|| format!("{}", package.display()))?;
    let (Some(dir), Some(name)) = (package.parent(), package.file_name()) else {
        bail!("{} is no file", package.display());
    };
    let layers = format!(
        "{}:{}",
        managed::lintian(suite)?.display(),
        tree::ensure(suite)?.display()
    );
    Cmd::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-ec", RUN, "sh"])
        .arg(layers)
        .arg(dir)
        .arg(name)
        .deadline(WITHIN)
        .run()
}
