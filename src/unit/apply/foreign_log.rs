//! An etcd that keeps its write-ahead log elsewhere than in its data directory. With the agent's settings it would
//! start without that log.

use std::path::{Path, PathBuf};

use super::exec_line::{flags_of, words};
use super::origins::environment;
use super::view::UnitView;
use crate::unit::wal;

const FLAG: &str = "wal-dir";
const VARIABLE: &str = "ETCD_WAL_DIR";

/// Refuses a unit that names a directory with a log, or one that cannot be looked into.
///
/// # Errors
/// One line: what names it, and what to do.
pub(super) fn refuse(view: &UnitView, data_dir: &Path) -> Result<(), String> {
    let Some((dir, place)) = named(view) else {
        return Ok(());
    };
    let own = data_dir.join("member/wal");
    if dir == own {
        return Ok(());
    }
    let shown = dir.display();
    match wal::is_there(&dir) {
        Ok(false) => Ok(()),
        Ok(true) => Err(format!(
            "{place}: etcd keeps its write-ahead log in {shown}, which etcd-agent does not support: \
             `systemctl stop etcd`, move the files to {}, remove that setting, `systemctl start etcd`",
            own.display()
        )),
        Err(error) => Err(format!(
            "{place}: etcd may keep its write-ahead log in {shown}, which is not known: {error}"
        )),
    }
}

/// The directory that etcd's unit names for the log, and where.
fn named(view: &UnitView) -> Option<(PathBuf, String)> {
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
        Some((flag.value?, var.map_or_else(exec, |var| var.place.clone())))
    });
    let (dir, place) = match (flag, env.get(VARIABLE)) {
        (Some(flag), _) => flag,
        (None, Some(var)) => (var.value.clone(), var.place.clone()),
        (None, None) => return None,
    };
    (!dir.is_empty()).then(|| (dir.into(), place))
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
        let data = dir.path().join("data");
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
        let own = data.join("member/wal");
        log_in(&own);
        let own = format!("ETCD_WAL_DIR={}\n", own.display());
        assert_eq!(
            refuse(&view(&own, &["/usr/bin/etcd"], &[]), &data),
            Ok(()),
            "it is there already"
        );
    }

    #[test]
    fn a_log_that_cannot_be_looked_into_is_unknown_and_refused() {
        let dir = tempfile::tempdir().unwrap();
        let around = dir.path().join("a");
        std::os::unix::fs::symlink(&around, &around).unwrap();
        let variable = format!("ETCD_WAL_DIR={}\n", around.display());
        let why = refuse(&view(&variable, &["/usr/bin/etcd"], &[]), Path::new("/d")).unwrap_err();
        assert!(why.contains("not known"), "{why}");
    }
}
