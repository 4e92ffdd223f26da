//! Makes in advance what labs need, so that no test has to.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::golang::{self, ETCD_VERSIONS};
use crate::managed::{self, Manager};
use crate::tree::{self, Suite};
use crate::{machine, prometheus, rpm, sweep};

/// Makes all that the tests and the bench need.
pub fn prepare() -> Result<()> {
    machine::install_for_tests()?;
    managed::molecule()?;
    prometheus::program()?;
    let servers = || {
        for version in ETCD_VERSIONS {
            golang::etcd(version)?;
        }
        golang::versitygw()?;
        golang::minio()?;
        golang::age()?;
        golang::robust()
    };
    make(&[Suite::Trixie, Suite::Bookworm], &Manager::ALL, servers)
}

/// Makes only what `lab demo` uses.
pub fn prepare_demo() -> Result<()> {
    make(&[Suite::Trixie], &[], golang::versitygw)
}

fn make(suites: &[Suite], managers: &[Manager], servers: impl FnOnce() -> Result<PathBuf>) -> Result<()> {
    machine::install()?;
    std::thread::scope(|scope| {
        // Unpacking a tree uses one processor and often waits; the others compile concurrently.
        let trees = scope.spawn(|| {
            suites
                .iter()
                .try_for_each(|suite| tree::ensure(*suite).map(drop))?;
            managers
                .iter()
                .try_for_each(|manager| managed::layer(*manager).map(drop))?;
            if !managers.is_empty() {
                managed::needrestart(Suite::Trixie)?;
                managed::lintian(Suite::Trixie)?;
                rpm::sources()?;
            }
            Ok(())
        });
        servers()?;
        match trees.join() {
            Ok(made) => made,
            Err(_) => bail!("making the Debian trees panicked"),
        }
    })?;
    sweep::sweep()?;
    Ok(())
}
