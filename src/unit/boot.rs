//! The kernel's boot ID.

/// The ID of this boot; empty without `/proc`.
pub fn id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}
