//! The command line: one file per command.

mod alarm;
mod archive;
mod archive_table;
mod backup;
mod backup_change;
mod backup_run;
mod backup_show;
mod backup_table;
mod bootstrapped;
mod client;
mod clusters;
mod colour;
mod commands;
mod config;
mod confirm;
mod decision;
mod defrag;
mod direct;
mod discard_empty;
mod downgrade;
mod epoch;
mod events;
mod exit;
mod help;
mod init;
mod leader;
mod log_level;
mod member;
mod members;
mod moment;
mod move_etcd;
mod ok_to_stop;
mod on_nodes;
mod out;
mod pause;
mod plain;
mod plan;
mod plan_after;
mod progress;
mod reboot_lock;
mod reload;
mod remote;
mod render;
mod restart;
mod restore;
mod restore_to;
mod run;
mod running_etcd;
mod spec;
mod ssh;
mod status;
mod status_view;
mod status_watch;
mod store;
mod systemd;
mod upgrade;
mod upgrade_target;
mod upgrade_wait;
mod verify;
mod version_path;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use client::{CallError, Client};
pub use exit::{Exit, Failure};

use crate::model::{NodeName, health};
use crate::paths::Paths;
use exit::Outcome;

/// A node agent that forms, repairs, backs up and restores etcd clusters
#[derive(Debug, Parser)]
#[command(name = "etcd-agent", version, arg_required_else_help = true, max_term_width = help::COLUMNS)]
#[command(after_help = "`etcd-agent help VERB` shows the options of a verb.\n\n\
    Exit codes: 0 done or healthy, 1 failed, 2 usage or bad configuration, 3 agent not reachable, \
    4 refused as unsafe, 5 timed out, 6 degraded, 7 not serving, 8 the agent has just started. See etcd-agent(8).")]
pub struct Cli {
    /// Use another root directory than `/`.
    #[arg(long, global = true, hide = true, default_value = "/")]
    root: PathBuf,
    /// Run the command on this node of the cluster instead, over ssh
    #[arg(long, global = true, value_name = "NODE")]
    host: Option<NodeName>,
    /// Colour the output: by default on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: colour::When,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the daemon (etcd-agent.service does)
    Run,
    Reload(reload::ReloadArgs),
    Init(init::InitArgs),
    DiscardEmpty(discard_empty::DiscardArgs),
    #[command(subcommand)]
    Archive(archive::ArchiveVerb),
    Status(status::StatusArgs),
    Plan(plan::PlanArgs),
    OkToStop(ok_to_stop::StopArgs),
    Events(events::EventsArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    MoveLeader(leader::MoveArgs),
    Restart(restart::RestartArgs),
    Defrag(defrag::DefragArgs),
    Upgrade(upgrade::UpgradeArgs),
    Downgrade(downgrade::DowngradeArgs),
    Move(move_etcd::MoveArgs),
    #[command(subcommand)]
    RebootLock(reboot_lock::LockVerb),
    LogLevel(log_level::LogArgs),
    #[command(subcommand)]
    Alarm(alarm::AlarmVerb),
    #[command(subcommand)]
    Member(member::MemberVerb),
    #[command(subcommand)]
    Backup(backup::BackupVerb),
    #[command(subcommand)]
    EtcdManager(commands::EtcdManagerVerb),
    Restore(restore::RestoreArgs),
    Bootstrap(restore::BootstrapArgs),
    #[command(subcommand)]
    Epoch(epoch::EpochVerb),
    #[command(subcommand)]
    Spec(spec::SpecVerb),
    #[command(subcommand)]
    Store(store::StoreVerb),
    Render(render::RenderArgs),
    #[command(subcommand)]
    Config(config::ConfigVerb),
    /// The former name of `member list`
    #[command(hide = true)]
    Members(out::Output),
    /// The former name of `etcd-manager commands`
    #[command(subcommand, hide = true)]
    Commands(commands::CommandsVerb),
    /// The former name of `config check`
    #[command(hide = true)]
    CheckConfig(config::CheckArgs),
    /// Write the drop-in and its environment file (etcd-agent-apply.service does)
    #[command(hide = true)]
    Apply,
    /// Copy root's configuration for a oneshot of another user (its `ExecStartPre=`)
    #[command(hide = true)]
    CopyConfig,
    /// Inspect, restore or move the data directory (etcd-agent-data.service does)
    #[command(hide = true)]
    Data,
    /// Restore a fetched backup into a throw-away etcd (etcd-agent-verify.service does)
    #[command(hide = true, alias = "prove")]
    VerifyRestore,
    /// Delay a start of etcd.service (its `ExecStartPre=`), or a stop (its `ExecStop=`)
    #[command(hide = true)]
    Gate {
        /// Wait until all committed changes are stored, for a few seconds at most
        #[arg(long)]
        stop: bool,
    },
}

impl Verb {
    /// Refuses what belongs to the units of a host, or asks other hosts itself.
    fn on(&self, host: &NodeName) -> Result<(), Failure> {
        let here = match self {
            Self::Run
            | Self::Apply
            | Self::CopyConfig
            | Self::Data
            | Self::VerifyRestore
            | Self::Gate { .. } => "the units of that host run this command",
            Self::Status(args) if args.is_of_all() => {
                "`status --all` asks the hosts of clusters.toml from here"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(Exit::Usage, format!("--host {host}: {here}")))
    }
}

impl Cli {
    /// The command line with its help.
    fn whole() -> clap::Command {
        help::grouped(Self::command())
    }

    /// The command line of this process. Prints help or an error and exits if there is nothing to run.
    pub fn of_process() -> Self {
        let matches = Self::whole().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Runs a command and returns the exit code.
pub fn main(cli: Cli) -> ExitCode {
    colour::choose(cli.color);
    let paths = Paths::below(cli.root);
    if let Some(host) = &cli.host {
        match cli.verb.on(host).and_then(|()| remote::run(&paths, host)) {
            Ok(Some(code)) => return code.into(),
            // It is this node.
            Ok(None) => {}
            Err(failure) => return outcome(Err(failure)),
        }
    }
    match cli.verb {
        // The oneshots need no runtime.
        Verb::Apply => crate::unit::apply::run(&paths),
        Verb::CopyConfig => crate::unit::config_copy::run(&paths),
        Verb::Data => crate::unit::data::run(&paths),
        Verb::VerifyRestore => crate::unit::verify::run(&paths),
        Verb::Gate { stop: false } => crate::unit::gate::run(&paths),
        Verb::Gate { stop: true } => crate::unit::gate::before_stop(&paths),
        verb => outcome(with_runtime(&paths, verb)),
    }
}

fn with_runtime(paths: &Paths, verb: Verb) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?
        .block_on(dispatch(paths, verb))
}

async fn dispatch(paths: &Paths, verb: Verb) -> Outcome {
    match verb {
        Verb::Run => run::run(paths).await,
        Verb::Reload(args) => reload::run(paths, args).await,
        Verb::Init(args) => init::run(paths, args).await,
        Verb::DiscardEmpty(args) => discard_empty::run(paths, args).await,
        Verb::Archive(verb) => archive::run(paths, &verb),
        Verb::Status(args) => status::run(paths, args).await,
        Verb::Plan(args) => plan::run(paths, args).await,
        Verb::OkToStop(args) => ok_to_stop::run(paths, args).await,
        Verb::Events(args) => events::run(paths, args).await,
        Verb::Pause(args) => pause::pause(paths, args).await,
        Verb::Resume(args) => pause::resume(paths, args).await,
        Verb::MoveLeader(args) => leader::run(paths, args).await,
        Verb::Restart(args) => restart::run(paths, args).await,
        Verb::Defrag(args) => defrag::run(paths, args).await,
        Verb::Downgrade(args) => downgrade::run(paths, args).await,
        Verb::Move(args) => move_etcd::run(paths, args).await,
        Verb::Upgrade(args) => upgrade::run(paths, args).await,
        Verb::Members(output) | Verb::Member(member::MemberVerb::List(output)) => {
            members::run(paths, output).await
        }
        Verb::Member(member::MemberVerb::Change(change)) => member::run(paths, change).await,
        Verb::Backup(verb) => backup::run(paths, verb).await,
        Verb::Commands(verb) | Verb::EtcdManager(commands::EtcdManagerVerb::Commands(verb)) => {
            commands::run(paths, verb).await
        }
        Verb::Restore(args) => restore::restore(paths, args).await,
        Verb::Bootstrap(args) => restore::bootstrap(paths, args).await,
        Verb::Epoch(verb) => epoch::run(paths, verb).await,
        Verb::RebootLock(verb) => reboot_lock::run(paths, verb).await,
        Verb::LogLevel(args) => log_level::run(paths, args).await,
        Verb::Alarm(verb) => alarm::run(paths, verb).await,
        Verb::Spec(verb) => spec::run(paths, verb).await,
        Verb::Store(verb) => store::run(paths, &verb).await,
        Verb::Render(args) => render::run(paths, &args),
        Verb::CheckConfig(args) | Verb::Config(config::ConfigVerb::Check(args)) => config::check(paths, args),
        Verb::Config(config::ConfigVerb::Show(output)) => config::show(paths, output),
        Verb::Config(config::ConfigVerb::IsLoaded(output)) => config::is_loaded(paths, output).await,
        Verb::Apply | Verb::CopyConfig | Verb::Data | Verb::VerifyRestore | Verb::Gate { .. } => {
            Ok(Exit::Usage)
        }
    }
}

fn outcome(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            for line in failure.text.lines() {
                progress::note(&format!("etcd-agent: {line}"));
            }
            failure.exit.into()
        }
    }
}

#[cfg(test)]
mod tests;
