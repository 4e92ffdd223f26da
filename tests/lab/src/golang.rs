//! Servers built from their Go modules: any version of etcd, versitygw as the S3 server, and `MinIO` as a
//! second one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::cmd::{Cmd, Output};

/// The etcd versions that every host has under `/opt/etcd-v<version>/`.
pub const ETCD_VERSIONS: &[&str] = &["3.5.35", "3.6.16", "3.7.3"];

/// The version of `/usr/bin/etcd` unless a lab selects another one.
pub const ETCD_DEFAULT: &str = "3.5.35";

const VERSITYGW: &str = "v1.8.0";
const AGE: &str = "v1.3.2";
/// A commit: the project tags no module versions.
const MINIO: &str = "v0.0.0-20260212201848-7aac2a2c5b7c";

/// A directory with `etcd`, `etcdctl` and `etcdutl` of this version, at two paths that serve as overlay
/// layers: `opt/opt/etcd-v<version>/` and `bin/usr/bin/`. The files are hard links.
pub fn etcd(version: &str) -> Result<PathBuf> {
    cache::entry(&format!("etcd-{version}"), &format!("2 {version}"), |dir| {
        let build = module(dir)?;
        let packages = ["server", "etcdctl", "etcdutl"];
        // `go install` refuses etcd's modules because of their replace directives, so a wrapper module builds
        // them.
        let wanted = packages.map(|name| format!("go.etcd.io/etcd/{name}/v3@v{version}"));
        go(&build, &["get"], &wanted.each_ref().map(String::as_str))?;
        let paths = packages.map(|name| format!("go.etcd.io/etcd/{name}/v3"));
        compile(&build, &paths.each_ref().map(String::as_str))?;
        let opt = dir.join(format!("opt/opt/etcd-v{version}"));
        let bin = dir.join("bin/usr/bin");
        fs::create_dir_all(&opt)?;
        fs::create_dir_all(&bin)?;
        for (built, name) in [("server", "etcd"), ("etcdctl", "etcdctl"), ("etcdutl", "etcdutl")] {
            fs::rename(build.join("out").join(built), opt.join(name))?;
            fs::hard_link(opt.join(name), bin.join(name))?;
        }
        cache::remove_tree(&build)
    })
}

/// The `versitygw` binary.
pub fn versitygw() -> Result<PathBuf> {
    program(
        "versitygw",
        "github.com/versity/versitygw",
        VERSITYGW,
        "/cmd/versitygw",
    )
}

/// Disables features of `minio`. Without the last variable it refuses a directory on the root file system.
pub const MINIO_ENV: [(&str, &str); 3] = [
    ("MINIO_BROWSER", "off"),
    ("MINIO_UPDATE", "off"),
    ("MINIO_CI_CD", "1"),
];

/// The `minio` binary, for tests only.
pub fn minio() -> Result<PathBuf> {
    program("minio", "github.com/minio/minio", MINIO, "")
}

/// The `age` binary, with `age-keygen` in the same directory: people open an encrypted backup with it.
pub fn age() -> Result<PathBuf> {
    programs("age", "filippo.io/age", AGE, &["/cmd/age", "/cmd/age-keygen"])
}

/// etcd's own robustness suite.
const ROBUST: &str = "v3.7.3";
const ROBUST_FILES: [&str; 4] = ["main.go", "follow.go", "go.mod", "go.sum"];

/// `tests/robust`, which sends the traffic of etcd's robustness suite and runs its validators.
pub(crate) fn robust() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../robust");
    let mut recipe = format!("1 {ROBUST}");
    for name in ROBUST_FILES {
        recipe.push_str(
            &fs::read_to_string(source.join(name)).with_context(|| format!("reading tests/robust/{name}"))?,
        );
    }
    let dir = cache::entry("robust", &recipe, |dir| {
        let build = dir.join("build");
        fs::create_dir_all(build.join("out"))?;
        for name in ROBUST_FILES {
            fs::copy(source.join(name), build.join(name))?;
        }
        go(&build, &["mod", "download"], &[])?;
        let suite = go(
            &build,
            &["list", "-m", "-f", "{{.Dir}}"],
            &["go.etcd.io/etcd/tests/v3"],
        )?;
        // The copy can be changed; the files of the module cache cannot.
        Cmd::new("cp")
            .args(["-r", "--no-preserve=mode", suite.text(), "suite"])
            .dir(&build)
            .ok()?;
        read_all_entries(&build.join("suite/robustness/report/wal.go"))?;
        go(
            &build,
            &["mod", "edit"],
            &["-replace=go.etcd.io/etcd/tests/v3=./suite"],
        )?;
        compile(&build, &["."])?;
        fs::rename(build.join("out/robust"), dir.join("robust"))?;
        cache::remove_tree(&build)
    })?;
    Ok(dir.join("robust"))
}

/// The suite's log reader panics at entries that its own clients do not cause. The agent's requests cause
/// them. They change no key, so the reader can skip them.
fn read_all_entries(file: &Path) -> Result<()> {
    const BEFORE: &str = "\tcase raftReq.ClusterMemberAttrSet != nil:";
    const ENTRIES: &str = "\tcase raftReq.AuthStatus != nil, raftReq.Alarm != nil, raftReq.LeaseCheckpoint != nil:\n\t\treturn nil, nil\n";
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    if text.matches(BEFORE).count() != 1 {
        bail!(
            "{} differs from {ROBUST}: check which entries it reads",
            file.display()
        );
    }
    fs::write(file, text.replace(BEFORE, &format!("{ENTRIES}{BEFORE}")))?;
    Ok(())
}

fn program(name: &str, module_path: &str, version: &str, package: &str) -> Result<PathBuf> {
    programs(name, module_path, version, &[package])
}

/// Builds programs of a module at this version into one directory; returns the path of the one called `name`.
fn programs(name: &str, module_path: &str, version: &str, packages: &[&str]) -> Result<PathBuf> {
    let dir = cache::entry(&format!("{name}-{version}"), &format!("1 {version}"), |dir| {
        let build = module(dir)?;
        go(&build, &["get"], &[&format!("{module_path}@{version}")])?;
        let paths: Vec<String> = packages
            .iter()
            .map(|package| format!("{module_path}{package}"))
            .collect();
        compile(&build, &paths.iter().map(String::as_str).collect::<Vec<_>>())?;
        for entry in fs::read_dir(build.join("out"))? {
            let entry = entry?;
            fs::rename(entry.path(), dir.join(entry.file_name()))?;
        }
        cache::remove_tree(&build)
    })?;
    Ok(dir.join(name))
}

fn module(dir: &Path) -> Result<PathBuf> {
    let build = dir.join("build");
    fs::create_dir_all(build.join("out"))?;
    fs::write(build.join("go.mod"), "module lab\n\ngo 1.26\n")?;
    Ok(build)
}

fn compile(build: &Path, packages: &[&str]) -> Result<()> {
    go(
        build,
        &["build", "-trimpath", "-ldflags", "-s -w", "-o", "out/"],
        packages,
    )
    .map(drop)
}

fn go(build: &Path, args: &[&str], more: &[&str]) -> Result<Output> {
    Cmd::new("go")
        .caller_env()
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .dir(build)
        .args(args)
        .args(more)
        .deadline(Duration::from_mins(15))
        .ok()
        .context("building a server of the lab: needs Go 1.26 or newer as `go` in PATH (package golang-go of a newer Debian, or https://go.dev/dl)")
}
