//! RPMs for hosts that are shaped like Fedora and EL: the agent's, and one in place of the distribution. It has
//! etcd's unit and file as Fedora has them, systemd's own file triggers with the helper that the packages' scripts
//! call, and it provides what the packages require and Debian's tree has.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cache;
use crate::cmd::Cmd;
use crate::machine;
use crate::tree::{self, Suite};

/// Increase this whenever `sources` below changes.
const RECIPE: u32 = 1;
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// `{{NAME}}` in systemd's files.
const PLACES: [(&str, &str); 9] = [
    (
        "SYSTEMD_UPDATE_HELPER_PATH",
        "/usr/lib/systemd/systemd-update-helper",
    ),
    ("SYSTEM_DATA_UNIT_DIR", "/usr/lib/systemd/system"),
    ("USER_DATA_UNIT_DIR", "/usr/lib/systemd/user"),
    ("SYSUSERS_DIR", "/usr/lib/sysusers.d"),
    ("TMPFILES_DIR", "/usr/lib/tmpfiles.d"),
    ("SYSTEMD_CATALOG_DIR", "/usr/lib/systemd/catalog"),
    ("BINFMT_DIR", "/usr/lib/binfmt.d"),
    ("SYSCTL_DIR", "/usr/lib/sysctl.d"),
    ("LIBEXECDIR", "/usr/lib/systemd"),
];

/// Fedora enables no service that its preset does not name.
const PRESET: &str = "disable *\n";
/// Fedora's, with its data directory.
const ETCD_CONF: &str = "#[Member]\nETCD_DATA_DIR=\"/var/lib/etcd/default.etcd\"\n\
    ETCD_LISTEN_CLIENT_URLS=\"http://localhost:2379\"\nETCD_NAME=\"default\"\n\
    #[Clustering]\nETCD_ADVERTISE_CLIENT_URLS=\"http://localhost:2379\"\n";
const ETCD_UNIT: &str = "[Unit]\nDescription=Etcd Server\nAfter=network.target network-online.target\n\
    Wants=network-online.target\n\n\
    [Service]\nType=notify\nWorkingDirectory=/var/lib/etcd/\nEnvironmentFile=-/etc/etcd/etcd.conf\nUser=etcd\n\
    ExecStart=/bin/bash -c \"GOMAXPROCS=$(nproc) /usr/bin/etcd\"\nRestart=on-failure\nLimitNOFILE=65536\n\n\
    [Install]\nWantedBy=multi-user.target\n";

/// The agent's RPM with the program of this Debian package, made by the spec with systemd's own macros.
pub fn agent_rpm(deb: &Path, dir: &Path, release: u32) -> Result<PathBuf> {
    let tree = dir.join("deb");
    Cmd::new("dpkg-deb").arg("-x").arg(deb).arg(&tree).ok()?;
    let macros = dir.join("macros.systemd");
    fs::write(&macros, placed("macros.systemd.in")?)?;
    let output = Cmd::new(Path::new(ROOT).join("packaging/rpm.sh"))
        .env("CARGO_TARGET_DIR", dir)
        .env("BINARY", tree.join("usr/bin/etcd-agent"))
        .env("MACROS", &macros)
        .env("RELEASE", release.to_string())
        .deadline(Duration::from_mins(5))
        .ok()?;
    Ok(PathBuf::from(output.text()))
}

/// The RPM in place of the distribution, for this one of the agent.
pub fn system_rpm(agent: &Path, dir: &Path) -> Result<PathBuf> {
    let required = Cmd::new("rpm")
        .args(["-qp", "--requires", "--nosignature"])
        .arg(agent)
        .ok()?;
    let mut spec =
        "Name: lab-system\nVersion: 257\nRelease: 1\nSummary: Stands for a distribution\nLicense: none\n\
        BuildArch: noarch\nAutoReqProv: no\nProvides: systemd = 257\nProvides: etcd = 3.5.35\n"
            .to_owned();
    for name in required
        .text()
        .lines()
        .filter(|line| !line.starts_with("rpmlib(") && !line.contains(' '))
    {
        let _ = writeln!(spec, "Provides: {name}");
    }
    spec.push_str("%description\nFor the lab.\n%install\n");
    let files = [
        (
            "/usr/lib/systemd/systemd-update-helper",
            "0755",
            placed("systemd-update-helper.in")?,
        ),
        (
            "/usr/lib/systemd/system/etcd.service",
            "0644",
            ETCD_UNIT.to_owned(),
        ),
        (
            "/usr/lib/systemd/system-preset/99-default-disable.preset",
            "0644",
            PRESET.to_owned(),
        ),
        ("/etc/etcd/etcd.conf", "0644", ETCD_CONF.to_owned()),
    ];
    let mut list = String::new();
    for (number, (path, mode, content)) in files.iter().enumerate() {
        let source = dir.join(format!("file-{number}"));
        fs::write(&source, content)?;
        let _ = writeln!(
            spec,
            "install -D -m {mode} {} %{{buildroot}}{path}",
            source.display()
        );
        let _ = writeln!(list, "{path}");
    }
    let _ = write!(spec, "%files\n{list}");
    for section in placed("triggers.systemd.in")?
        .split("\n%transfiletrigger")
        .skip(1)
    {
        // Those of another package.
        if !section.lines().next().is_some_and(|line| line.contains(" udev ")) {
            let _ = write!(spec, "\n%transfiletrigger{section}\n");
        }
    }
    let file = dir.join("lab-system.spec");
    fs::write(&file, spec)?;
    Cmd::new("rpmbuild")
        .arg("-bb")
        .arg(&file)
        .args([
            "--define".to_owned(),
            format!("_topdir {}", dir.join("build").display()),
        ])
        .args(["--define".to_owned(), format!("_rpmdir {}", dir.display())])
        .args(["--define", "_build_name_fmt %%{NAME}.rpm"])
        .ok()?;
    Ok(dir.join("lab-system.rpm"))
}

/// A file of systemd's sources, with the places that it names on a host.
fn placed(name: &str) -> Result<String> {
    let path = sources()?.join("src/rpm").join(name);
    let mut text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    for (name, place) in PLACES {
        text = text.replace(&format!("{{{{{name}}}}}"), place);
    }
    Ok(text)
}

/// `src/rpm` of the systemd that the hosts run. It is fetched now if it is not there.
pub(crate) fn sources() -> Result<PathBuf> {
    let tree = tree::ensure(Suite::Trixie)?;
    let query = ["dpkg-query", "-W", "-f", "${Version}", "systemd"];
    let version = Cmd::new("chroot").arg(&tree).args(query).ok()?;
    let upstream = version.text().split('-').next().unwrap_or_default().to_owned();
    cache::entry("systemd-rpm", &format!("{RECIPE} {upstream}"), |dir| {
        let url = format!(
            "{}/pool/main/s/systemd/systemd_{upstream}.orig.tar.gz",
            machine::mirror().trim_end_matches('/')
        );
        let archive = dir.join("systemd.tar.gz");
        Cmd::new("curl")
            .caller_env()
            .args(["-fsSL", "--retry", "3", "-o"])
            .arg(&archive)
            .arg(url)
            .deadline(Duration::from_mins(5))
            .ok()?;
        Cmd::new("tar")
            .args(["--strip-components=1", "--wildcards", "-xzf"])
            .arg(&archive)
            .arg("-C")
            .arg(dir)
            .arg("*/src/rpm")
            .ok()?;
        Ok(fs::remove_file(archive)?)
    })
}
