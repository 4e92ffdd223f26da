//! `etcd-agent gate`, the `ExecStartPre=` of a managed `etcd.service`: it holds a start back until the epoch
//! is confirmed. It refuses by waiting, never by failing, so that the agent cannot make etcd's start fail.
//!
//! `etcd-agent gate --stop`, its `ExecStop=`, holds a stop back for a moment: systemd signals etcd only when
//! the coordinator lets it stop and the store has what etcd has committed, or when either cannot be had soon.

mod ask;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::DataDirs;
use super::files;
use super::journal::{one_line, say};
use super::wal;
use crate::config::env_file;
use crate::model::{GateState, Generation, InitialSettings, InitialState};
use crate::paths::Paths;
use crate::plan::start::{Answer, Known, Log, Step, decide};
use crate::telemetry::message_ids;

pub use ask::GateAnswer;

/// Poll interval: a cleared start continues well within etcd's election timeout.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The time between two lines in the journal about the same wait.
const SAY_EVERY: Duration = Duration::from_mins(1);
/// The agent's own file has nothing that versions of systemd read in different ways.
const ANY_SYSTEMD: u32 = u32::MAX;
/// How long the agent may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a stop waits for leave. With the time to store the last changes it stays below `TimeoutStopSec=`
/// of the drop-in.
const LEAVE_WITHIN: Duration = Duration::from_secs(20);
/// How long the agent may take to store what etcd has committed last; longer than the agent's own limit.
const STORED_WITHIN: Duration = Duration::from_secs(5);

/// Waits until etcd may start. Always succeeds.
pub fn run(paths: &Paths) -> ExitCode {
    crate::telemetry::init();
    let mut last_answer = Instant::now();
    let mut said: Option<Instant> = None;
    loop {
        match look(paths, &mut last_answer) {
            Step::Pass(why) => {
                if said.is_some() {
                    say(&format!("etcd may start: {why}"));
                }
                return ExitCode::SUCCESS;
            }
            Step::Wait(why) => {
                if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
                    let path = paths.gate_override();
                    tracing::warn!(
                        message_id = message_ids::GATE_WAITS,
                        "etcd's start waits: {}; to start it in this boot all the same, as root: touch {}",
                        one_line(&why),
                        path.display()
                    );
                    said = Some(Instant::now());
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// Waits until etcd may stop, then asks the agent to store what etcd has committed. Always succeeds: a stop
/// never waits for an agent that is down, and for one that runs only for a bounded time.
pub fn before_stop(paths: &Paths) -> ExitCode {
    wait_for_leave(&paths.gate_socket());
    match ask::before_stop(&paths.gate_socket(), STORED_WITHIN) {
        Ok(answer) => say(&format!("etcd stops: {}", answer.text)),
        Err(error) => say(&format!("etcd stops, and no etcd-agent answers here: {error}")),
    }
    ExitCode::SUCCESS
}

/// Waits until the coordinator lets etcd stop, so that members that are restarted at the same moment go down
/// one at a time.
fn wait_for_leave(socket: &Path) {
    let begun = Instant::now();
    let mut said = false;
    while let Ok(answer) = ask::may_stop(socket, ANSWER_WITHIN) {
        let text = one_line(&answer.text);
        if answer.go {
            if said {
                say(&format!("etcd may stop: {text}"));
            }
            return;
        }
        if begun.elapsed() >= LEAVE_WITHIN {
            say(&format!(
                "etcd stops without leave after {} s: {text}",
                LEAVE_WITHIN.as_secs()
            ));
            return;
        }
        if !said {
            say(&format!(
                "etcd's stop waits for leave, at most {} s: {text}",
                LEAVE_WITHIN.as_secs()
            ));
            said = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Overrides the gate in this boot, as `touch` of the override file does. Needs root.
///
/// # Errors
/// One line that says what could not be written.
pub fn override_for_this_boot(paths: &Paths) -> Result<(), String> {
    let path = paths.gate_override();
    let failed = |error| format!("writing {}: {error}", path.display());
    fs::create_dir_all(paths.run()).map_err(failed)?;
    files::write_atomic(&path, b"", 0o644).map_err(failed)
}

fn look(paths: &Paths, last_answer: &mut Instant) -> Step {
    let mut known = Known {
        gate: read_gate(&paths.gate()),
        // Any error other than "not found" counts as present.
        assigned: !matches!(fs::symlink_metadata(paths.assignment()),
            Err(error) if error.kind() == ErrorKind::NotFound),
        cleared: read_cleared(&paths.gate_cleared()),
        initial: read_initial(&paths.etcd_env()),
        overridden: owned_by_root(&paths.gate_override()),
        agent: Answer::NotYet(String::new()),
    };
    let etcds_log = read_variable(&paths.etcd_env(), "ETCD_WAL_DIR").map(PathBuf::from);
    let log = |gate: &GateState| identify(gate, etcds_log.as_deref());
    // If the files alone decide, the agent is not asked.
    let step = decide(&known, log);
    if matches!(step, Step::Pass(_)) {
        return step;
    }
    known.agent = match ask::may_start(&paths.gate_socket(), ANSWER_WITHIN) {
        Ok(answer) => {
            *last_answer = Instant::now();
            if answer.clear {
                Answer::Clear
            } else {
                Answer::NotYet(answer.text)
            }
        }
        Err(_) => Answer::Silent(last_answer.elapsed()),
    };
    decide(&known, log)
}

fn read_gate(path: &Path) -> Result<Option<GateState>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    match files::read_bounded(path) {
        Ok(None) => Ok(None),
        Ok(Some(body)) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// A setting that etcd will start with. systemd reads the file again for each of a unit's commands
/// (`systemd.exec(5)`, `EnvironmentFile=`), so the gate's own environment may be older.
fn read_variable(path: &Path, key: &str) -> Option<String> {
    let body = files::read_bounded(path).ok()??;
    let lines = env_file::parse(std::str::from_utf8(&body).ok()?, ANY_SYSTEMD);
    let line = lines.into_iter().rfind(|line| line.key == key)?;
    Some(line.value)
}

/// The `initial-cluster-*` settings that etcd will start with.
fn read_initial(path: &Path) -> Option<InitialSettings> {
    Some(InitialSettings {
        token: read_variable(path, "ETCD_INITIAL_CLUSTER_TOKEN")?,
        state: InitialState::from_word(&read_variable(path, "ETCD_INITIAL_CLUSTER_STATE")?)?,
    })
}

fn read_cleared(path: &Path) -> Option<Generation> {
    #[derive(Deserialize)]
    struct Cleared {
        generation: Generation,
    }
    let body = files::read_bounded(path).ok()??;
    serde_json::from_slice::<Cleared>(&body)
        .ok()
        .map(|cleared| cleared.generation)
}

/// The directory belongs to the agent, so a file in it counts only if root created it.
fn owned_by_root(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == 0 && meta.nlink() == 1)
}

/// The owner of the log. Of data and a log that is elsewhere, both have to be there or none, and they have to
/// belong together: etcd 3.5 and 3.6 serve an empty cluster from a log without its data. `etcds_log` is the
/// `wal-dir` that etcd will start with: with another one it would make a log of its own.
fn identify(gate: &GateState, etcds_log: Option<&Path>) -> Result<Option<Log>, String> {
    let dirs = DataDirs::of_gate(gate);
    if etcds_log != dirs.wal() {
        let shown = |dir: Option<&Path>| dir.map_or_else(|| dirs.own_log(), Path::to_owned);
        return Err(format!(
            "etcd's environment file has the log in {}, expected {}: etcd-agent-apply.service has not written it yet",
            shown(etcds_log).display(),
            shown(dirs.wal()).display()
        ));
    }
    let log = dirs.log();
    let failed = |error: wal::WalError| error.to_string();
    let there = wal::is_there(&log).map_err(failed)?;
    if dirs.wal().is_some() {
        belong_together(&dirs, there)?;
    }
    if !there {
        return Ok(None);
    }
    let (cluster_id, member_id) = wal::identify(&log).map_err(failed)?;
    Ok(Some(Log {
        cluster_id,
        member_id,
        remembers: wal::remembers(&log).map_err(failed)?,
    }))
}

fn belong_together(dirs: &DataDirs, log_there: bool) -> Result<(), String> {
    let (log, data) = (dirs.log(), dirs.data().display());
    let shown = log.display();
    let part = if log_there { dirs.database() } else { dirs.member() };
    let data_there = match fs::symlink_metadata(&part) {
        Ok(_) => true,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => false,
        Err(error) => return Err(format!("{}: {error}", part.display())),
    };
    match (data_there, log_there) {
        (true, false) => Err(format!("{data} has data, and there is no log in {shown}")),
        (false, true) => Err(format!("{shown} has a log, and there is no database in {data}")),
        (false, false) => Ok(()),
        (true, true) => match wal::check::apart(&log, &dirs.snap()) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(format!(
                "the log in {shown} does not belong to the data in {data}: {why}"
            )),
            Err(error) => Err(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests;
