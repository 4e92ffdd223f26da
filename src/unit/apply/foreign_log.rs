//! An etcd that keeps its write-ahead log elsewhere than the agent's settings say. It would start without
//! that log.

use std::fs;
use std::path::{Path, PathBuf};

use super::exec_line::{flags_of, words};
use super::origins::{Origins, environment};
use super::view::UnitView;
use crate::unit::{DataDirs, mounts, wal};

const FLAG: &str = "wal-dir";
const VARIABLE: &str = "ETCD_WAL_DIR";

/// A directory that etcd's unit names for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLog {
    /// The directory.
    pub dir: PathBuf,
    /// `file:line` of what names it.
    pub place: String,
    /// Whether it is a flag, which beats each variable.
    pub is_flag: bool,
}

/// Refuses a unit whose etcd has its log elsewhere than in `dirs`, and one for which that is not known.
///
/// # Errors
/// One line: what names the other place, and what to do.
pub(super) fn refuse(view: &UnitView, dirs: &DataDirs) -> Result<(), String> {
    let wanted = dirs.log();
    let named = named(view);
    let (dir, place) = match &named {
        Some(named) => (named.dir.clone(), format!("{}: ", named.place)),
        None => (dirs.own_log(), String::new()),
    };
    if same(&dir, &wanted) {
        return Ok(());
    }
    let shown = dir.display();
    match wal::is_there(&dir) {
        Ok(false) => Ok(()),
        Ok(true) if named.is_none() => Err(format!(
            "etcd keeps its write-ahead log in {shown}, and etcd.wal_dir is {}: remove etcd.wal_dir, or \
             `systemctl stop etcd`, move the files there, `systemctl start etcd`",
            wanted.display()
        )),
        Ok(true) => Err(format!(
            "{place}etcd keeps its write-ahead log in {shown}, and the configuration of etcd-agent says {}: set \
             etcd.wal_dir = \"{shown}\", or `systemctl stop etcd`, move the files to {}, remove that setting, \
             `systemctl start etcd`",
            dirs.wal()
                .map_or_else(|| "nothing about it".to_owned(), |dir| dir.display().to_string()),
            wanted.display()
        )),
        Err(error) => Err(format!(
            "{place}etcd may keep its write-ahead log in {shown}, which is not known: {error}"
        )),
    }
}

/// Refuses an `etcd.wal_dir` that cannot be renamed: a mount point, and a symbolic link, of which only the
/// link would be. etcd makes its log next to it and renames it, and so does the archive.
///
/// # Errors
/// One line: what to configure.
pub fn refuse_fixed(dirs: &DataDirs, mountinfo: &str) -> Result<(), String> {
    let Some(dir) = dirs.wal() else {
        return Ok(());
    };
    let shown = dir.display();
    if fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink()) {
        return Err(format!(
            "etcd.wal_dir {shown} is a symbolic link: set it to the directory itself"
        ));
    }
    if mounts::is_point(dir, mountinfo) {
        return Err(format!(
            "etcd.wal_dir {shown} is a mount point: set it to a directory below it, such as {}",
            dir.join("etcd").display()
        ));
    }
    Ok(())
}

/// Whether both are the same directory.
fn same(one: &Path, other: &Path) -> bool {
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    one == other || real(one) == real(other)
}

/// As [`named`], of the next start.
pub fn named_log(origins: &Origins) -> Option<NamedLog> {
    named(&origins.view)
}

/// The directory that etcd's unit names for the log, if it names one.
fn named(view: &UnitView) -> Option<NamedLog> {
    let env = environment(view);
    let exec = || {
        view.place("ExecStart", |line| !line.is_empty())
            .unwrap_or_else(|| view.loaded.fragment_path.clone())
    };
    let mut flags = view
        .loaded
        .exec_start
        .iter()
        .flat_map(|argv| flags_of(&words(argv, &env)));
    let flag = flags.rfind(|flag| flag.name == FLAG).and_then(|flag| {
        let var = flag.var.and_then(|name| env.get(&name));
        Some(NamedLog {
            dir: flag.value?.into(),
            place: var.map_or_else(exec, |var| var.place.clone()),
            is_flag: true,
        })
    });
    let variable = || {
        env.get(VARIABLE).map(|var| NamedLog {
            dir: var.value.clone().into(),
            place: var.place.clone(),
            is_flag: false,
        })
    };
    flag.or_else(variable)
        .filter(|named| !named.dir.as_os_str().is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{ClusterId, MemberId};
    use crate::unit::loaded::LoadedUnit;

    const DEFAULTS: &str = "/etc/default/etcd";

    /// A log in this directory.
    fn log_in(dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        let name = "0000000000000000-0000000000000000.wal";
        std::fs::write(dir.join(name), wal::encode(ClusterId(1), MemberId(2))).unwrap();
    }

    fn view(defaults: &str, argv: &[&str], unset: &[&str]) -> UnitView {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut view = UnitView {
            loaded: LoadedUnit {
                fragment_path: "/lib/systemd/system/etcd.service".into(),
                environment_files: vec![(DEFAULTS.into(), true)],
                unset_environment: owned(unset),
                exec_start: vec![owned(argv)],
                ..LoadedUnit::default()
            },
            systemd: 257,
            ..UnitView::default()
        };
        view.texts.insert(DEFAULTS.into(), Ok(Some(defaults.into())));
        view
    }

    #[test]
    fn a_unit_whose_log_is_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let data = DataDirs::new(dir.path().join("data"), None);
        std::fs::create_dir(&log).unwrap();
        let variable = format!("\nETCD_WAL_DIR={}\n", log.display());
        let flag = format!("--wal-dir={}", log.display());
        let args = format!("DAEMON_ARGS=\"{flag}\"\n");
        let of_variable = view(&variable, &["/usr/bin/etcd"], &[]);
        assert_eq!(refuse(&of_variable, &data), Ok(()), "there is no log");
        log_in(&log);
        let rows = [
            (&of_variable, "/etc/default/etcd:2: "),
            (
                &view("", &["/usr/bin/etcd", &flag], &[]),
                "/lib/systemd/system/etcd.service: ",
            ),
            (
                &view(&args, &["/usr/bin/etcd", "$DAEMON_ARGS"], &[]),
                "/etc/default/etcd:1: ",
            ),
            // The flag is in force although our drop-in unsets the variable.
            (
                &view(&variable, &["etcd", &flag], &[VARIABLE]),
                "/lib/systemd/system/etcd.service: ",
            ),
        ];
        for (view, place) in rows {
            let why = refuse(view, &data).unwrap_err();
            assert!(why.starts_with(place) && why.contains("data/member/wal"), "{why}");
        }
        let unset = view(&variable, &["/usr/bin/etcd"], &[VARIABLE]);
        assert_eq!(refuse(&unset, &data), Ok(()), "etcd does not get it any more");
        let own = data.own_log();
        log_in(&own);
        let own = format!("ETCD_WAL_DIR={}\n", own.display());
        assert_eq!(
            refuse(&view(&own, &["/usr/bin/etcd"], &[]), &data),
            Ok(()),
            "it is there already"
        );
    }

    #[test]
    fn a_log_at_the_configured_place_is_accepted_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (log, other) = (dir.path().join("log"), dir.path().join("other"));
        let dirs = DataDirs::new(dir.path().join("data"), Some(log.clone()));
        let names = |dir: &Path| {
            view(
                &format!("ETCD_WAL_DIR={}\n", dir.display()),
                &["/usr/bin/etcd"],
                &[],
            )
        };
        let nothing = view("", &["/usr/bin/etcd"], &[]);
        assert_eq!(refuse(&nothing, &dirs), Ok(()), "a new member");
        log_in(&log);
        assert_eq!(refuse(&names(&log), &dirs), Ok(()));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&log, &link).unwrap();
        assert_eq!(refuse(&names(&link), &dirs), Ok(()), "the same directory");
        assert_eq!(refuse(&names(&other), &dirs), Ok(()), "there is none");
        log_in(&other);
        let why = refuse(&names(&other), &dirs).unwrap_err();
        assert!(
            why.contains("/etc/default/etcd:1: ") && why.contains("set etcd.wal_dir = "),
            "{why}"
        );
        log_in(&dirs.own_log());
        let why = refuse(&nothing, &dirs).unwrap_err();
        assert!(why.contains("remove etcd.wal_dir"), "{why}");
    }

    #[test]
    fn a_mount_point_and_a_link_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let mountinfo = format!("23 22 8:2 / {} rw - xfs /dev/b rw\n", real.display());
        let refused = |log: PathBuf| refuse_fixed(&DataDirs::new("/d".into(), Some(log)), &mountinfo);
        let why = refused(real.clone()).unwrap_err();
        assert!(why.contains("a directory below it, such as"), "{why}");
        assert_eq!(refused(real.join("etcd")), Ok(()), "not there yet");
        let link = real.join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(refused(link.clone()).unwrap_err().contains("is a symbolic link"));
        assert_eq!(refused(link.join("etcd")), Ok(()), "below a link");
        assert_eq!(refuse_fixed(&DataDirs::new(real, None), &mountinfo), Ok(()));
    }

    #[test]
    fn a_log_that_cannot_be_looked_into_is_unknown_and_refused() {
        let dir = tempfile::tempdir().unwrap();
        let around = dir.path().join("a");
        std::os::unix::fs::symlink(&around, &around).unwrap();
        let variable = format!("ETCD_WAL_DIR={}\n", around.display());
        let why = refuse(
            &view(&variable, &["/usr/bin/etcd"], &[]),
            &DataDirs::new("/d".into(), None),
        )
        .unwrap_err();
        assert!(why.contains("not known"), "{why}");
    }
}
