use super::*;
use crate::unit::loaded::LoadedUnit;

const UNIT: &str = "/lib/systemd/system/etcd.service";
const DEFAULTS: &str = "/etc/default/etcd";

#[test]
fn the_last_file_that_sets_a_value_is_named() {
    let mut view = UnitView {
        loaded: LoadedUnit {
            fragment_path: UNIT.into(),
            environment: vec!["ETCD_NAME=host".into(), "ETCD_CORS=a".into()],
            environment_files: vec![(DEFAULTS.into(), true)],
            unset_environment: vec!["ETCD_DISCOVERY".into()],
            exec_start: vec![vec![
                "/usr/bin/etcd".into(),
                "$DAEMON_ARGS".into(),
                "--max-wals=5".into(),
            ]],
            ..LoadedUnit::default()
        },
        systemd: 257,
        ..UnitView::default()
    };
    let unit = "[Service]\nEnvironment=ETCD_NAME=%H\nEnvironment=ETCD_CORS=a\nExecStart=/usr/bin/etcd $DAEMON_ARGS --max-wals=5\n";
    let defaults =
        "\nETCD_CORS=b\nDAEMON_ARGS=\"--enable-pprof --metrics=extensive\"\nETCD_DISCOVERY=http://x\n";
    view.texts.insert(UNIT.into(), Ok(Some(unit.into())));
    view.texts.insert(DEFAULTS.into(), Ok(Some(defaults.into())));
    let manager = vec!["ETCD_LOGGER=zap".into(), "ETCD_NAME=m".into()];
    let origins = Origins { view, manager };
    let table = [
        ("name", "host", Some("/lib/systemd/system/etcd.service:2")),
        ("name", "m", None),
        ("cors", "b", Some("/etc/default/etcd:2")),
        ("cors", "a", None),
        ("enable-pprof", "true", Some("/etc/default/etcd:3")),
        ("metrics", "extensive", Some("/etc/default/etcd:3")),
        ("metrics", "basic", None),
        ("max-wals", "5", Some("/lib/systemd/system/etcd.service:4")),
        ("discovery", "http://x", None),
        (
            "logger",
            "zap",
            Some("`systemctl set-environment ETCD_LOGGER=...`"),
        ),
        ("snapshot-count", "1", None),
    ];
    for (flag, value, expected) in table {
        assert_eq!(origins.of(flag, value).as_deref(), expected, "{flag}={value}");
    }
}
