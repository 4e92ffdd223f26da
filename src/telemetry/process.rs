//! This process, as the kernel accounts for it (`proc_pid_stat(5)`, `proc_pid_status(5)`, `proc_pid_limits(5)`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::model::UnixMs;

/// The unit of times in `/proc/PID/stat`: `USER_HZ` is 100 on each architecture with a package of the agent.
const TICK_MS: u64 = 10;

/// What a process uses. A value that cannot be read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// User and system time of all its threads.
    pub cpu: Option<Duration>,
    /// Its memory in RAM, in bytes.
    pub resident_bytes: Option<u64>,
    /// The size of its address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// The number of its open files and sockets.
    pub open_fds: Option<u64>,
    /// The limit of that number (`LimitNOFILE=`, the soft one); `None` also if it is unlimited.
    pub max_fds: Option<u64>,
    /// The number of its threads.
    pub threads: Option<u64>,
    /// When it was started.
    pub started_at: Option<UnixMs>,
}

impl Process {
    /// Reads `/proc/self`. It blocks for less than a millisecond, on the kernel only.
    pub fn read() -> Self {
        Self::below(Path::new("/proc"))
    }

    fn below(proc: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
        let stat = text("self/stat");
        // Counted after the name of the command, which may contain spaces and parentheses: the first one is field 3.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = |number: usize| Some(field(number)?.saturating_mul(TICK_MS));
        let status = text("self/status");
        let bytes = |key: &str| Some(first_number(&status, key)?.saturating_mul(1024));
        let booted_ms = first_number(&text("stat"), "btime").map(|seconds| seconds.saturating_mul(1000));
        let spent_ms = ticks(14)
            .zip(ticks(15))
            .map(|(user, system)| user.saturating_add(system));
        let started_ms = booted_ms
            .zip(ticks(22))
            .map(|(boot, after)| boot.saturating_add(after));
        Self {
            cpu: spent_ms.map(Duration::from_millis),
            resident_bytes: bytes("VmRSS:"),
            virtual_bytes: bytes("VmSize:"),
            open_fds: open_fds(&proc.join("self/fd")),
            max_fds: first_number(&text("self/limits"), "Max open files"),
            threads: first_number(&status, "Threads:"),
            started_at: started_ms.map(UnixMs),
        }
    }
}

/// The number that follows `key` at the beginning of a line.
fn first_number(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The number of open files, without the directory that is read here.
fn open_fds(dir: &Path) -> Option<u64> {
    let count = fs::read_dir(dir).ok()?.count();
    u64::try_from(count).ok()?.checked_sub(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const STAT: &str = "4711 (a ) 1 (b) S 1 4711 4711 0 -1 4194560 6011 0 13 0 250 75 0 0 20 0 9 0 12345 \
                        1342177280 9216 18446744073709551615 1 1 0 0 0 0 0 4096 17 0 0 0 17 1 0 0 0 0 0\n";
    const STATUS: &str = "Name:\tThreads: 3\nVmPeak:\t 1400000 kB\nVmSize:\t 1310720 kB\nVmRSS:\t   36864 kB\n\
                          Threads:\t9\n";
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max processes             127                  127                  processes \n\
                          Max open files            1024                 524288               files     \n";

    fn write(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir.join("self/fd")).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn a_process_is_read_from_proc() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("stat", "cpu  1 2 3 4\nintr 5 6\nbtime 1772366640\nprocesses 9\n"),
            ("self/stat", STAT),
            ("self/status", STATUS),
            ("self/limits", LIMITS),
            ("self/fd/0", ""),
            ("self/fd/1", ""),
            ("self/fd/7", ""),
        ];
        write(dir.path(), &files);
        let expected = Process {
            cpu: Some(Duration::from_millis(3_250)),
            resident_bytes: Some(36 << 20),
            virtual_bytes: Some(1280 << 20),
            open_fds: Some(2),
            max_fds: Some(1024),
            threads: Some(9),
            started_at: Some(UnixMs(1_772_366_640_000 + 123_450)),
        };
        assert_eq!(Process::below(dir.path()), expected);
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Process::below(dir.path()), Process::default());
        let files = [
            ("stat", "btime never\n"),
            ("self/stat", "4711 (etcd-agent) S 1\n"),
            ("self/status", "VmRSS:\n"),
            (
                "self/limits",
                "Max open files            unlimited            unlimited            files     \n",
            ),
        ];
        write(dir.path(), &files);
        assert_eq!(Process::below(dir.path()), Process::default());
    }

    /// The kernel's files have the form that is expected here.
    #[test]
    fn this_process_is_known() {
        let process = Process::read();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let now_ms = u64::try_from(now.as_millis()).unwrap();
        let started = process.started_at.unwrap().0;
        assert!(
            started <= now_ms + 2_000 && now_ms - 86_400_000 < started,
            "{started} {now_ms}"
        );
        assert!(process.cpu.unwrap() < Duration::from_hours(24));
        let resident = process.resident_bytes.unwrap();
        assert!(resident > 1 << 20 && resident < process.virtual_bytes.unwrap());
        assert!((1..process.max_fds.unwrap()).contains(&process.open_fds.unwrap()));
        assert!(process.threads.unwrap() >= 1);
    }
}
