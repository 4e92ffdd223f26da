//! The requirements on the machine that runs the lab. Missing packages are installed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cmd::Cmd;

/// Debian packages of the outer machine, each with a file that shows that it is installed.
const PACKAGES: &[(&str, &str)] = &[
    ("debootstrap", "/usr/sbin/debootstrap"),
    ("zstd", "/usr/bin/zstd"),
    (
        "debian-archive-keyring",
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    ),
    ("systemd-container", "/usr/bin/systemd-nspawn"),
    ("iproute2", "/usr/sbin/tc"),
    ("nftables", "/usr/sbin/nft"),
    ("util-linux", "/usr/bin/nsenter"),
    ("curl", "/usr/bin/curl"),
    ("openssl", "/usr/bin/openssl"),
    ("make", "/usr/bin/make"),
    ("build-essential", "/usr/share/build-essential/list"),
    ("debhelper", "/usr/bin/dh"),
    ("protobuf-compiler", "/usr/bin/protoc"),
    ("rpm", "/usr/bin/rpmbuild"),
    ("libprotobuf-dev", "/usr/include/google/protobuf/any.proto"),
];

/// What the tests of pages need in addition.
const BROWSER: &[(&str, &str)] = &[("chromium", "/usr/bin/chromium")];

/// What Molecule needs.
const MOLECULE: &[(&str, &str)] = &[
    ("ansible-core", "/usr/bin/ansible-playbook"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
];

/// Fails if the lab cannot work on this machine, and names what is missing.
pub(crate) fn check() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("the lab boots systemd hosts in containers: run it as root");
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.ends_with("\toverlay")) {
        bail!("the kernel has no overlay file system: try `modprobe overlay`");
    }
    are_there(PACKAGES)
}

/// Fails if there is no browser.
pub(crate) fn check_browser() -> Result<()> {
    are_there(BROWSER)
}

fn are_there(packages: &[(&'static str, &str)]) -> Result<()> {
    let missing = missing(packages);
    if !missing.is_empty() {
        bail!(
            "missing on this machine: {}; `lab prepare` installs them",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Installs the missing Debian packages.
pub(crate) fn install() -> Result<()> {
    install_missing(PACKAGES)?;
    check()
}

/// Installs what only some tests need, if it is missing.
pub(crate) fn install_for_tests() -> Result<()> {
    install_missing(BROWSER)?;
    install_missing(MOLECULE)?;
    check_browser()
}

fn install_missing(packages: &[(&'static str, &str)]) -> Result<()> {
    let missing = missing(packages);
    if !missing.is_empty() {
        if !Path::new("/usr/bin/apt-get").exists() {
            bail!(
                "missing: {}; install them (only apt-get is known here)",
                missing.join(", ")
            );
        }
        eprintln!("lab: installing {}", missing.join(" "));
        apt_get(&["update", "-q"])?;
        let mut args = vec!["install", "-y", "-q", "--no-install-recommends"];
        args.extend(missing);
        apt_get(&args)?;
    }
    Ok(())
}

fn missing(packages: &[(&'static str, &str)]) -> Vec<&'static str> {
    packages
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(name, _)| *name)
        .collect()
}

fn apt_get(args: &[&str]) -> Result<()> {
    Cmd::new("apt-get")
        .caller_env()
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(args)
        .deadline(Duration::from_mins(15))
        .ok()
        .context("installing what the lab needs")?;
    Ok(())
}

/// The Debian mirror that this machine itself uses.
pub(crate) fn mirror() -> String {
    let mut lists = vec![std::path::PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        lists.extend(dir.flatten().map(|entry| entry.path()));
    }
    lists.sort();
    lists
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .find_map(|text| deb822(&text).or_else(|| one_line(&text)))
        .unwrap_or_else(|| "http://deb.debian.org/debian".to_owned())
}

/// Whether an archive's URI looks like Debian's main archive, not the security archive or a third party's.
fn is_main_archive(uri: &str) -> bool {
    uri.starts_with("http") && uri.trim_end_matches('/').ends_with("/debian")
}

fn deb822(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("URIs:"))
        .flat_map(str::split_whitespace)
        .find(|uri| is_main_archive(uri))
        .map(str::to_owned)
}

fn one_line(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| line.starts_with("deb "))
        .flat_map(str::split_whitespace)
        .find(|word| is_main_archive(word))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{deb822, one_line};

    #[test]
    fn mirrors_are_read_from_both_forms() {
        let sources =
            "Types: deb\nURIs: http://a.example/debian-security\n\nURIs: http://a.example/debian/\n";
        assert_eq!(deb822(sources).as_deref(), Some("http://a.example/debian/"));
        let list = "# deb http://no.example/debian x main\ndeb [signed-by=/k] https://b.example/debian trixie main\n";
        assert_eq!(one_line(list).as_deref(), Some("https://b.example/debian"));
        assert_eq!(one_line("deb https://b.example/apt stable main"), None);
    }
}
