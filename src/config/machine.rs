//! What the configuration takes from the host.

use std::path::PathBuf;

use super::etcd_unit;
use crate::paths::Paths;

/// The facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// The host name up to its first dot.
    pub(super) name: String,
    /// Its memory in bytes.
    pub(super) memory: u64,
    /// The data directory of `etcd.service`, or why it is unknown.
    pub(super) data_dir: Result<PathBuf, String>,
}

const GIB: u64 = 1 << 30;
/// The quotas that `auto` chooses from, in GiB. etcd suggests at most 8 GiB
/// (<https://etcd.io/docs/v3.6/dev-guide/limit/>).
const QUOTAS: [u64; 4] = [8, 4, 2, 1];

impl Machine {
    /// This host: uname(2), sysinfo(2) and the files of `etcd.service`.
    pub(super) fn here(paths: &Paths) -> Self {
        let info = rustix::system::sysinfo();
        let unit = u64::from(info.mem_unit);
        Self {
            name: short_host_name(),
            memory: info.totalram.saturating_mul(unit),
            data_dir: etcd_unit::data_dir(paths),
        }
    }

    /// The quota of a database of which the whole fits into half of the memory: etcd maps it into memory and is slow
    /// once parts of it have to be read from the disk. The steps are large, so that a kernel that takes a little more
    /// memory changes nothing.
    pub(super) fn quota(&self) -> u64 {
        // A host of 8 GiB has a little less than 8 GiB for its processes.
        let nominal = self.memory.saturating_add(self.memory / 8);
        let fits = QUOTAS.into_iter().find(|quota| nominal >= 2 * quota * GIB);
        fits.unwrap_or(1) * GIB
    }
}

/// The host name up to its first dot.
pub(super) fn short_host_name() -> String {
    let uname = rustix::system::uname();
    let full = uname.nodename().to_string_lossy();
    full.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_memory_is_for_the_database() {
        for (mib, quota) in [
            (500, 1),
            (1950, 1),
            (3900, 2),
            (7900, 4),
            (10_000, 4),
            (15_900, 8),
            (100_000, 8),
        ] {
            let machine = Machine {
                name: "n1".to_owned(),
                memory: mib << 20,
                data_dir: Ok("/d".into()),
            };
            assert_eq!(machine.quota(), quota * GIB, "{mib} MiB");
        }
        assert!(Machine::here(&Paths::system()).memory > 1 << 20);
    }
}
