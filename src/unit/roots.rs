//! Checks that only root can have installed a program. No other program is run with the rights of root, etcd
//! or the agent.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// Checks that only root can have put a program there: the program, every directory above it and every link
/// on the way belong to root, and only root can write to them. `what` names it in the error.
///
/// # Errors
/// One line: which path is not root's alone, and what to do.
pub fn roots_own(what: &str, program: &Path) -> Result<(), String> {
    owned_below(Path::new("/"), 0, program).map_err(|why| format!("{what} {}: {why}", program.display()))
}

/// [`roots_own`] with another root directory and another owner.
fn owned_below(root: &Path, uid: u32, program: &Path) -> Result<(), String> {
    let plain = program.is_absolute()
        && program
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain {
        return Err("is not a plain absolute path".to_owned());
    }
    let mut left = parts(program);
    let mut at = root.to_path_buf();
    let mut links = 0;
    check(&at, uid)?;
    while let Some(part) = left.pop() {
        if part == ".." {
            if at != root {
                at.pop();
            }
            continue;
        }
        at.push(part);
        let Some(target) = check(&at, uid)? else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Err("has too many symbolic links on its way".to_owned());
        }
        at.pop();
        if target.is_absolute() {
            at = root.to_path_buf();
        }
        left.extend(parts(&target));
    }
    let meta = fs::metadata(&at).map_err(|error| format!("{}: {error}", at.display()))?;
    if !meta.is_file() || meta.mode() & 0o111 == 0 {
        return Err("is not a program".to_owned());
    }
    Ok(())
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Refuses a path that others can write; returns the target of a link.
fn check(path: &Path, uid: u32) -> Result<Option<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    if meta.uid() != uid || (!meta.is_symlink() && meta.mode() & 0o022 != 0) {
        return Err(format!(
            "{} (uid {}, mode {:04o}) is not root's alone to write: chown root it, chmod go-w it",
            path.display(),
            meta.uid(),
            meta.mode() & 0o7777
        ));
    }
    if !meta.is_symlink() {
        return Ok(None);
    }
    fs::read_link(path).map(Some).map_err(failed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn f01_only_roots_programs_are_run() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("etcd");
        fs::write(&program, "").unwrap();
        for path in [
            program.as_path(),
            Path::new("etcd"),
            Path::new("/usr/../usr/bin/env"),
            Path::new("/no/such"),
            Path::new("/usr/bin"),
        ] {
            let refused = roots_own("etcd.binary", path).unwrap_err();
            assert!(refused.starts_with("etcd.binary "), "{refused}");
        }
        assert_eq!(roots_own("etcd.binary", Path::new("/usr/bin/env")), Ok(()));
    }

    /// `/bin/etcd` → `../hop/etcd` → `/opt/etcd`: each link, and the directory that it is in.
    #[test]
    fn f01_each_link_on_the_way_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let uid = rustix::process::geteuid().as_raw();
        for name in ["bin", "hop", "opt"] {
            fs::create_dir(root.join(name)).unwrap();
            mode(&root.join(name), 0o755);
        }
        fs::write(root.join("opt/etcd"), "").unwrap();
        mode(&root.join("opt/etcd"), 0o755);
        symlink("../hop/etcd", root.join("bin/etcd")).unwrap();
        symlink("/opt/etcd", root.join("hop/etcd")).unwrap();
        let look = || owned_below(root, uid, Path::new("/bin/etcd"));
        assert_eq!(look(), Ok(()));
        assert!(
            owned_below(root, uid + 1, Path::new("/bin/etcd")).is_err(),
            "of another user"
        );
        for name in ["bin", "hop", "opt", "opt/etcd"] {
            mode(&root.join(name), 0o775);
            let refused = look().unwrap_err();
            assert!(refused.contains(&format!("/{name} (uid")), "{name}: {refused}");
            mode(&root.join(name), 0o755);
        }
        mode(&root.join("opt/etcd"), 0o644);
        assert_eq!(look(), Err("is not a program".to_owned()));
        fs::remove_file(root.join("hop/etcd")).unwrap();
        symlink("etcd", root.join("hop/etcd")).unwrap();
        assert!(look().unwrap_err().contains("too many"), "a loop ends");
    }
}
