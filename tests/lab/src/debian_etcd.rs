//! The etcds of Debian's packages as versions that an operator has unpacked.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache;
use crate::cmd::Cmd;
use crate::tree::{self, Suite};

/// Increase this whenever `layer` below changes.
const RECIPE: u32 = 1;

/// The programs of etcd that the tree of this suite has, as a layer with `opt/etcd-v<version>/`. It is made
/// now if it does not exist. They need a C library not older than Debian 12's.
pub(crate) fn layer(suite: Suite) -> Result<PathBuf> {
    let tree = tree::ensure(suite)?;
    let recipe = format!("{RECIPE} {}", tree.display());
    cache::entry(&format!("etcd-of-{suite}"), &recipe, |dir| {
        let programs = tree.join("usr/bin");
        let shown = Cmd::new(programs.join("etcd")).arg("--version").ok()?;
        let version = shown
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("etcd Version: "));
        let version = version.with_context(|| format!("etcd --version printed {:?}", shown.stdout))?;
        let opt = dir.join(format!("opt/etcd-v{version}"));
        fs::create_dir_all(&opt)?;
        for name in ["etcd", "etcdctl", "etcdutl"] {
            // etcd 3.4 has no etcdutl.
            let program = programs.join(name);
            if program.is_file() {
                fs::copy(&program, opt.join(name))
                    .with_context(|| format!("copying {}", program.display()))?;
            }
        }
        Ok(())
    })
}
