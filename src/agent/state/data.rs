//! What is known of the data directory and of the etcd that uses it.

use std::time::Duration;

use crate::model::{
    BackupId, BaseEtcd, ClusterId, DataState, Epoch, EtcdStatus, Fact, LastWords, MemberId, SteadyMs,
    TlsFinding, TlsView, UnitState, V2View,
};
use crate::ports::{DataReport, DataRequest, Inspection, ProcessReport};

/// How often an etcd that was found too old, and does not run, is checked again.
const OLD_AGAIN: Duration = Duration::from_secs(30);
/// How long a report on the data directory is kept, whatever the gate says.
const REPORT_LASTS: Duration = Duration::from_secs(2);

/// A member and its cluster.
pub(crate) type Whose = (ClusterId, MemberId);

/// A process of etcd: its PID and `UnitState::ended_us`.
type Process = (u32, u64);

/// The last report of the data directory's owner, as far as it is still valid.
#[derive(Debug, Default)]
pub(crate) struct LocalData {
    state: Fact<DataState>,
    /// When etcd had ended last (`UnitState::ended_us`) before the report.
    ended_us: u64,
    /// The etcd that ran during the report, and the member whose data was found.
    runs_on: Option<(Process, Whose)>,
    reported_at: Option<SteadyMs>,
    /// The version of an etcd that is too old, and when that was found.
    too_old: Option<(String, SteadyMs)>,
    /// etcd's last log lines when it last ended by itself, until it serves again.
    last_words: Option<LastWords>,
    staged: Option<(Epoch, BackupId)>,
    /// Why the directory cannot be archived or replaced.
    archive_trouble: Option<String>,
    /// The etcd that `etcd.service` starts while no version is selected.
    base: Option<BaseEtcd>,
    /// The etcd whose settings were compared with those that are written, and the differences.
    drift: Option<(Process, Fact<Vec<String>>)>,
    /// The member whose log was read, and whether it holds entries of v2.
    v2_entries: Option<(Whose, bool)>,
    /// The etcd that ran while the disk was read for keys of v2, and what was found.
    v2: Option<(Process, V2View)>,
    /// What was found in certificate files, with their stamp right before (`ServiceManager::tls_stamp`).
    tls: Option<(String, SteadyMs, Vec<TlsFinding>)>,
}

impl LocalData {
    /// What is in the data directory.
    pub(crate) fn state(&self) -> &Fact<DataState> {
        &self.state
    }

    /// The version of an etcd that is too old.
    pub(crate) fn too_old(&self) -> Option<&str> {
        self.too_old.as_ref().map(|(version, _)| version.as_str())
    }

    /// etcd's last log lines when it last ended by itself.
    pub(crate) fn last_words(&self) -> Option<&LastWords> {
        self.last_words.as_ref()
    }

    /// The restore that is staged next to the data directory.
    pub(crate) fn staged(&self) -> Option<&(Epoch, BackupId)> {
        self.staged.as_ref()
    }

    /// Why the directory cannot be archived or replaced; `None` also if that is not known.
    pub(crate) fn archive_trouble(&self) -> Option<&str> {
        self.archive_trouble.as_deref()
    }

    /// What is known of the etcd in this file.
    pub(crate) fn base(&self, file: &str) -> Option<&BaseEtcd> {
        self.base.as_ref().filter(|base| base.file == file)
    }

    /// Whether the log of this member holds entries of v2; `None` if it was not read.
    pub(crate) fn v2_entries(&self, whose: Whose) -> Option<bool> {
        let (of, holds) = self.v2_entries?;
        (of == whose).then_some(holds)
    }

    /// What the disk says of keys of v2, if it was read while the etcd of `unit` ran.
    pub(crate) fn v2(&self, unit: &UnitState) -> V2View {
        let process = (unit.main_pid, unit.ended_us);
        let same = self.v2.as_ref().filter(|(of, _)| *of == process);
        same.map(|(_, view)| view.clone()).unwrap_or_default()
    }

    /// The member whose data the etcd of `unit` has open, if the report was made while this process ran.
    pub(crate) fn runs_on(&self, unit: &UnitState) -> Option<Whose> {
        let (process, whose) = self.runs_on?;
        (process == (unit.main_pid, unit.ended_us)).then_some(whose)
    }

    /// How the settings of the etcd of `unit` differ from those that are written; `None` if they were not compared.
    pub(crate) fn drift(&self, unit: &UnitState) -> Option<&Fact<Vec<String>>> {
        let (process, drift) = self.drift.as_ref()?;
        (*process == (unit.main_pid, unit.ended_us)).then_some(drift)
    }

    /// What was found in the certificate files that have this stamp now; `None` if this node has none.
    pub(crate) fn tls(&self, stamp: Option<&str>) -> TlsView {
        let Some(stamp) = stamp else {
            return TlsView::default();
        };
        let same = self.tls.as_ref().filter(|(of, ..)| of == stamp);
        TlsView {
            unread: same.is_none(),
            found: same.map_or(Fact::Absent, |(_, _, found)| Fact::Known(found.clone())),
            at: same.map(|(_, at, _)| *at).unwrap_or_default(),
        }
    }

    /// Drops what was found in certificate files so long ago that they have to be read again before etcd is
    /// stopped.
    pub(crate) fn forget_old_tls(&mut self, now: SteadyMs) {
        self.tls = self
            .tls
            .take()
            .filter(|(_, at, _)| now.since(*at) < TlsView::LASTS);
    }

    /// Takes over what was found in certificate files. `stamp` is from before they were read.
    pub(crate) fn take_tls(&mut self, stamp: Option<String>, report: &DataReport, now: SteadyMs) {
        if let (Some(stamp), Some(found)) = (stamp, &report.tls) {
            self.tls = Some((stamp, now, found.clone()));
        }
    }

    /// Takes over what the disk says of keys of v2, or why that is not known, if the request asked for it. `unit` is
    /// the state of `etcd.service` before the request.
    pub(crate) fn take_v2(
        &mut self,
        request: &DataRequest,
        report: &DataReport,
        unit: &UnitState,
        at: SteadyMs,
    ) {
        if !matches!(request, DataRequest::Inspect(Inspection { v2_keys: true, .. })) {
            return;
        }
        let why = || {
            report
                .error
                .as_deref()
                .unwrap_or("nothing was found out")
                .to_owned()
        };
        let found = report
            .v2_keys
            .clone()
            .map_or_else(|| Fact::Unreachable(why()), Fact::Known);
        self.keep_v2(unit, V2View { found, at });
    }

    /// Takes over what the disk says of keys of v2, unless it was read again since. `unit` is the state of
    /// `etcd.service` before it was read.
    pub(crate) fn keep_v2(&mut self, unit: &UnitState, view: V2View) {
        let process = (unit.main_pid, unit.ended_us);
        let newer = |(of, kept): &(Process, V2View)| *of == process && kept.at > view.at;
        if !self.v2.as_ref().is_some_and(newer) {
            self.v2 = Some((process, view));
        }
    }

    /// Drops the comparison of the settings: others may be written since, or set by other files.
    pub(crate) fn forget_drift(&mut self) {
        self.drift = None;
    }

    /// Takes over a report. `unit` is the state of `etcd.service` before the request.
    pub(crate) fn take_report(&mut self, report: &DataReport, unit: &UnitState, now: SteadyMs) {
        self.ended_us = unit.ended_us;
        self.reported_at = Some(now);
        self.too_old = report.etcd_too_old.clone().map(|version| (version, now));
        self.state = Fact::Known(report.data.clone());
        let process = (unit.main_pid, unit.ended_us);
        let runs_on = report.data.member().filter(|_| unit.main_pid != 0);
        self.runs_on = runs_on.map(|member| (process, member));
        self.last_words.clone_from(&report.last_words);
        self.staged.clone_from(&report.staged);
        self.archive_trouble.clone_from(&report.archive_trouble);
        if let Some(ProcessReport { drift, .. }) =
            report.process.as_ref().filter(|found| found.pid == unit.main_pid)
        {
            self.drift = Some((process, drift.clone()));
        }
        // A busy host may not have answered in time. A version that is known of the same file stays.
        let stays = |found: &BaseEtcd| found.version.is_none() && self.base(&found.file).is_some();
        if report.base.as_ref().is_some_and(|found| !stays(found)) {
            self.base.clone_from(&report.base);
        }
        if let (Some(holds), Some(whose)) = (report.v2_entries, report.data.member()) {
            self.v2_entries = Some((whose, holds));
        }
    }

    /// Drops what is known of the data directory.
    pub(crate) fn forget(&mut self, why: &str) {
        self.state = Fact::Unreachable(why.to_owned());
    }

    /// Drops a report that is older than `REPORT_LASTS`. The gate asks five times a second, and a new report
    /// has to last until the planner has decided on it.
    pub(crate) fn forget_older(&mut self, now: SteadyMs, why: &str) {
        if self.reported_at.is_none_or(|at| now.since(at) >= REPORT_LASTS) {
            self.forget(why);
        }
    }

    /// Takes the status of an etcd that serves. Its last words no longer apply.
    pub(crate) fn etcd_serves(&mut self, etcd: &EtcdStatus) {
        self.last_words = None;
        if !etcd.log_decides() {
            // While an older member is left, new entries of v2 may get into the log.
            self.v2_entries = None;
        }
    }

    /// etcd has the directory open. `whose` is from etcd's own answer, or from an earlier report on the same
    /// process.
    pub(crate) fn is_open(&mut self, whose: Option<Whose>) {
        self.state = match whose {
            Some((cluster_id, member_id)) => Fact::Known(DataState::Present {
                cluster_id,
                member_id,
            }),
            None => Fact::Unreachable("etcd has it open".to_owned()),
        };
    }

    /// Drops the report if etcd has run since. etcd may also have run during the inspection: systemd restarts
    /// a killed etcd before the inspection ends.
    pub(crate) fn etcd_ended(&mut self, ended_us: u64) {
        if !self.state.is_unreachable() && ended_us > self.ended_us {
            self.forget("etcd ran since the last inspection");
        }
    }

    /// Takes the version of an etcd that runs.
    pub(crate) fn runs_version(&mut self, version: &str, is_old: bool, now: SteadyMs) {
        self.too_old = is_old.then(|| (version.to_owned(), now));
    }

    /// Drops the report on an etcd that was too old and does not run: it may have been upgraded since.
    pub(crate) fn check_version_again(&mut self, now: SteadyMs) {
        if let Some((_, found)) = &self.too_old
            && now.since(*found) >= OLD_AGAIN
        {
            self.forget("etcd was too old at the last inspection");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{ActiveState, LoadState, V2Names};

    /// A report of an empty host.
    fn nothing() -> DataReport {
        DataReport {
            data: DataState::Missing,
            staged: None,
            error: None,
            etcd_too_old: None,
            last_words: None,
            v2_entries: None,
            base: None,
            process: None,
            tls: None,
            v2_keys: None,
            archive_trouble: None,
        }
    }

    #[test]
    fn a_version_that_was_read_stays_known_for_its_file() {
        let unit = UnitState {
            active: ActiveState::Inactive,
            sub: "dead".into(),
            result: "success".into(),
            main_pid: 0,
            load: LoadState::Loaded,
            held: false,
            ended_us: 0,
        };
        let mut data = LocalData::default();
        let mut read = |file: &str, version: Option<&str>| {
            let version = version.map(|text| text.parse().unwrap());
            let file = file.to_owned();
            let report = DataReport {
                base: Some(BaseEtcd { file, version }),
                ..nothing()
            };
            data.take_report(&report, &unit, SteadyMs(1));
            data.base.as_ref().unwrap().version
        };
        let known = read("a", Some("3.5.35"));
        assert_eq!(read("a", None), known, "it did not answer");
        assert_eq!(read("b", None), None, "another file");
        assert_eq!(read("b", Some("3.6.16")).unwrap().minor, 6);
    }

    #[test]
    fn a_comparison_of_settings_counts_for_its_process_until_others_are_written() {
        let unit = |main_pid, ended_us| UnitState {
            active: ActiveState::Active,
            sub: "running".into(),
            result: "success".into(),
            main_pid,
            load: LoadState::Loaded,
            held: false,
            ended_us,
        };
        let report = |pid| DataReport {
            process: Some(ProcessReport {
                pid,
                drift: Fact::Known(vec!["x".into()]),
            }),
            ..nothing()
        };
        let mut data = LocalData::default();
        data.take_report(&report(6), &unit(7, 1), SteadyMs(1));
        assert_eq!(data.drift(&unit(7, 1)), None, "another process was compared");
        data.take_report(&report(7), &unit(7, 1), SteadyMs(2));
        assert_eq!(data.drift(&unit(7, 1)), Some(&Fact::Known(vec!["x".into()])));
        assert_eq!(data.drift(&unit(8, 2)), None, "restarted");
        data.forget_drift();
        assert_eq!(data.drift(&unit(7, 1)), None);
    }

    #[test]
    fn what_was_found_in_certificate_files_counts_until_they_change() {
        let report = DataReport {
            tls: Some(Vec::new()),
            ..nothing()
        };
        let mut data = LocalData::default();
        assert_eq!(data.tls(None), TlsView::default(), "there are none");
        assert!(data.tls(Some("one")).unread);
        data.take_tls(Some("one".to_owned()), &report, SteadyMs(5));
        let read = data.tls(Some("one"));
        assert_eq!((read.unread, read.at), (false, SteadyMs(5)));
        assert_eq!(read.found, Fact::Known(Vec::new()));
        data.forget_old_tls(SteadyMs(600_004));
        assert!(!data.tls(Some("one")).unread);
        data.forget_old_tls(SteadyMs(600_005));
        assert!(data.tls(Some("one")).unread, "ten minutes later");
        data.take_tls(Some("one".to_owned()), &report, SteadyMs(600_006));
        let changed = data.tls(Some("two"));
        assert_eq!((changed.unread, changed.found), (true, Fact::Absent));
    }

    #[test]
    fn keys_of_v2_count_for_the_etcd_that_ran_while_the_disk_was_read() {
        let unit = |main_pid| UnitState {
            active: ActiveState::Active,
            sub: "running".into(),
            result: "success".into(),
            main_pid,
            load: LoadState::Loaded,
            held: false,
            ended_us: 1,
        };
        let report = |v2_keys, error: Option<&str>| DataReport {
            error: error.map(str::to_owned),
            v2_keys,
            ..nothing()
        };
        let asked = |v2_keys| {
            DataRequest::Inspect(Inspection {
                v2_keys,
                ..Inspection::default()
            })
        };
        let clean = report(Some(V2Names::default()), None);
        let mut data = LocalData::default();
        data.take_v2(&asked(false), &clean, &unit(7), SteadyMs(5));
        assert_eq!(data.v2(&unit(7)), V2View::default(), "nobody asked");
        data.take_v2(&asked(true), &clean, &unit(7), SteadyMs(5));
        let read = data.v2(&unit(7));
        assert_eq!(read.found, Fact::Known(V2Names::default()));
        assert_eq!(read.at, SteadyMs(5));
        assert_eq!(data.v2(&unit(8)), V2View::default(), "restarted");
        data.take_v2(
            &asked(true),
            &report(None, Some("garbage")),
            &unit(7),
            SteadyMs(6),
        );
        assert_eq!(data.v2(&unit(7)).found, Fact::Unreachable("garbage".into()));
        data.take_v2(&asked(true), &clean, &unit(7), SteadyMs(5));
        assert!(
            data.v2(&unit(7)).found.is_unreachable(),
            "it was read again since"
        );
        data.take_v2(&asked(true), &clean, &unit(8), SteadyMs(5));
        assert_eq!(data.v2(&unit(8)).at, SteadyMs(5));
    }
}
