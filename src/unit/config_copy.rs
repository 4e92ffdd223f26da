//! Root's configuration for a oneshot of another user, who may not be allowed to read the files.
//!
//! `etcd-agent copy-config` is the `ExecStartPre=` of such a oneshot. It runs as root, without capabilities, and
//! copies the files into the private `/tmp` of the unit. ADR 30.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

use super::{files, settings};
use crate::config::{self, Settings};
use crate::paths::Paths;

/// The path and the content of each file, or why root does not accept them.
type Copy = Result<Vec<(String, String)>, String>;

/// Writes the copy.
pub fn run(paths: &Paths) -> ExitCode {
    super::journal::exit_code("copy-config", write(paths))
}

fn write(paths: &Paths) -> Result<(), String> {
    let path = paths.config_copy();
    let copy: Copy = config::copy(paths).map_err(|problems| settings::line(&problems));
    let body = serde_json::to_vec(&copy).map_err(|error| error.to_string())?;
    replace(&path, &body).map_err(|error| format!("writing {}: {error}", path.display()))
}

/// It does not have to last: systemd removes the directory with the unit's last process.
fn replace(path: &Path, body: &[u8]) -> io::Result<()> {
    files::remove_file(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(body)?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Loads the configuration from the copy. Without one that root has written it reads the files, as the user of this
/// process: where `/tmp` is not private, another user may have put something in the place of the copy.
///
/// # Errors
/// One line: what is wrong with the configuration or with the copy.
pub(super) fn load(paths: &Paths) -> Result<Settings, String> {
    let path = paths.config_copy();
    let no_copy = match read(paths, &path) {
        Ok(Some(copy)) => return settings::valid(paths, config::load_copied(paths, copy?)),
        Ok(None) => {
            "ExecStartPre= of this unit has left no copy of root's configuration; add that line again \
                     (`systemctl cat` shows the unit)"
                .to_owned()
        }
        Err(error) => {
            let refused = format!("reading {}: {error}", path.display());
            super::journal::say(&refused);
            refused
        }
    };
    settings::load(paths).map_err(|why| format!("{no_copy}, or make the files readable (chmod 644): {why}"))
}

/// Reads the copy, which only root can have written. `None` if there is none.
fn read(paths: &Paths, path: &Path) -> io::Result<Option<Copy>> {
    let Some(file) = files::open_no_link(path)? else {
        return Ok(None);
    };
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let (meta, root) = (file.metadata()?, fs::metadata(paths.host(Path::new("/")))?);
    if !meta.is_file() || meta.uid() != root.uid() || meta.mode() & 0o022 != 0 {
        return Err(refused(
            "another user than root can have written it: remove it, and let the unit have PrivateTmp=yes",
        ));
    }
    let copy = serde_json::from_reader(io::BufReader::new(file));
    copy.map(Some)
        .map_err(|error| refused(&format!("it is not a copy of the configuration: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn host() -> (tempfile::TempDir, Paths) {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        for file in [paths.config_copy(), paths.config_file()] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        (root, paths)
    }

    fn configure(paths: &Paths, keep: usize) {
        let text = format!("[node]\nname = \"n1\"\n[etcd]\ndata_dir = \"/d\"\n[archive]\nkeep = {keep}\n");
        files::write_atomic(&paths.config_file(), text.as_bytes(), 0o640).unwrap();
    }

    #[test]
    fn a_oneshot_reads_the_copy_and_not_the_files() {
        let (_root, paths) = host();
        configure(&paths, 5);
        assert_eq!(load(&paths).unwrap().archive.keep, 5, "without a copy");
        for keep in [6, 7] {
            configure(&paths, keep);
            write(&paths).unwrap();
            fs::remove_file(paths.config_file()).unwrap();
            assert_eq!(load(&paths).unwrap().archive.keep, keep);
        }
        let mode = fs::metadata(paths.config_copy()).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o644, "etcd's user reads it");
        let dir = paths.config_copy();
        assert_eq!(fs::read_dir(dir.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn why_root_refuses_a_file_is_in_the_copy() {
        let (_root, paths) = host();
        configure(&paths, 5);
        fs::set_permissions(paths.config_file(), Permissions::from_mode(0o666)).unwrap();
        write(&paths).unwrap();
        configure(&paths, 5);
        let refused = load(&paths).unwrap_err();
        assert!(
            refused.contains("config.toml") && refused.contains("chmod go-w"),
            "{refused}"
        );

        fs::remove_file(paths.config_file()).unwrap();
        write(&paths).unwrap();
        let none = load(&paths).unwrap_err();
        assert!(none.starts_with("not configured: "), "{none}");
        fs::remove_file(paths.config_copy()).unwrap();
        let none = load(&paths).unwrap_err();
        assert!(none.contains("ExecStartPre="), "{none}");
    }

    #[test]
    fn a_copy_that_others_can_have_written_is_refused() {
        let (root, paths) = host();
        configure(&paths, 5);
        let copy = paths.config_copy();
        write(&paths).unwrap();
        configure(&paths, 6);
        assert_eq!(load(&paths).unwrap().archive.keep, 5, "the copy");
        fs::set_permissions(&copy, Permissions::from_mode(0o646)).unwrap();
        assert_eq!(load(&paths).unwrap().archive.keep, 6, "the files");
        fs::remove_file(paths.config_file()).unwrap();
        let refused = || load(&paths).unwrap_err();
        fs::set_permissions(&copy, Permissions::from_mode(0o646)).unwrap();
        assert!(refused().contains("PrivateTmp=yes"), "{}", refused());
        fs::rename(&copy, root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.path().join("elsewhere"), &copy).unwrap();
        assert!(refused().contains("etcd-agent-config.json"), "{}", refused());
        configure(&paths, 7);
        write(&paths).unwrap();
        fs::remove_file(paths.config_file()).unwrap();
        assert_eq!(load(&paths).unwrap().archive.keep, 7, "the link is replaced");
        fs::write(&copy, "{").unwrap();
        assert!(refused().contains("not a copy"), "{}", refused());
    }
}
