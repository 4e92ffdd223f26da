//! `etcd-agent upgrade`: another version of etcd on all nodes, one after the other, by grants of the
//! coordinator.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::Client;
use super::confirm::Yes;
use super::direct::{self, OrderArgs, Silent};
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::progress::{Progress, note};
use super::upgrade_target::Target;
use super::upgrade_wait::{until_back, until_done};
use super::version_path::{Way, log_step, members, path, running};
use super::wait::{self, Deadline, Timeout};
use crate::model::{
    AdminStatus, DirectiveChange, DirectiveView, EtcdVersion, NodeName, OperatorRequest, PlanView,
};
use crate::paths::Paths;
use crate::plan::setting_objection;

/// Upgrade etcd on all nodes, one after the other
///
/// The raft leader comes last. A backup is taken first, and the upgrade stops at the first trouble.
#[derive(Debug, clap::Args)]
pub(super) struct UpgradeArgs {
    /// The version, e.g. 3.6.16, on each node's disk as /opt/etcd-v3.6.16/etcd; or `package`
    ///
    /// `package` is the binary of etcd.service itself. From then on its package is followed: one that replaces the
    /// binary is put in force one member at a time.
    #[arg(long, value_name = "VERSION", required_unless_present = "cancel")]
    to: Option<Target>,
    /// Upgrade this node and no other until the upgrade is ordered again
    #[arg(long, value_name = "NODE", requires = "to")]
    pause_after: Option<NodeName>,
    /// Take no backup first
    #[arg(long)]
    no_backup: bool,
    /// Go back to the etcd of before, while a member still runs it
    #[arg(long, conflicts_with_all = ["to", "pause_after", "no_backup"])]
    cancel: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// How long the cluster may take to settle between two steps.
const SETTLES: Duration = Duration::from_mins(1);
/// How often the next step is tried meanwhile.
const EVERY: Duration = Duration::from_secs(1);

/// The result of an upgrade or a downgrade.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    /// False if every node ran the version already.
    pub(super) changed: bool,
    /// The versions of the steps, in order.
    pub(super) steps: Vec<Target>,
    /// What was done.
    pub(super) message: String,
}

/// What is to be carried out.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) way: Way,
    pub(super) to: Target,
    /// From [`path`]; empty if every member runs it.
    pub(super) steps: Vec<Target>,
    pub(super) pause_after: Option<NodeName>,
    pub(super) no_backup: bool,
    /// What a later step waits for.
    pub(super) waits: Option<String>,
    /// What an operator can do if the version does not do well.
    pub(super) way_back: String,
    pub(super) yes: Yes,
    pub(super) order: OrderArgs,
    pub(super) timeout: Timeout,
}

impl Wanted {
    fn change(&self, to: Target) -> DirectiveChange {
        match (to, self.way) {
            (Target::Package, _) => DirectiveChange::FollowPackage,
            (Target::Version(to), Way::Up) => DirectiveChange::Upgrade {
                to,
                pause_after: self.pause_after.clone(),
            },
            (Target::Version(to), Way::Down) => DirectiveChange::Downgrade { to },
        }
    }

    /// What goes on if the command is interrupted.
    fn fate(&self) -> &'static str {
        match self.way {
            Way::Up => {
                "the upgrade goes on; `etcd-agent upgrade --cancel` goes back while a member still runs the former etcd"
            }
            Way::Down => {
                "the downgrade goes on; `etcd-agent downgrade --cancel` ends it while a member still runs the newer etcd"
            }
        }
    }

    /// What to say when a step does not go on. A downgrade is cancelled, since etcd keeps its data in the older format
    /// for it (<https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>). An upgrade can go on later.
    async fn stops(&self, client: &Client, why: &str) -> Failure {
        let text = match self.way {
            Way::Up => format!("{why}; `etcd-agent upgrade --cancel` goes back"),
            Way::Down => {
                note(&format!("{why}; the downgrade is cancelled"));
                match self.go_back(client).await {
                    Ok(()) => {
                        format!("{why}; the downgrade was cancelled, and all members run the etcd of before")
                    }
                    Err(failure) => format!(
                        "{why}; the way back is not complete: {failure}; `etcd-agent downgrade --cancel` tries again"
                    ),
                }
            }
        };
        Failure::failed(text)
    }

    async fn go_back(&self, client: &Client) -> Result<(), Failure> {
        let view = direct::order(client, DirectiveChange::CancelUpgrade, self.order).await?;
        back(client, &view, &Deadline::after(self.timeout.timeout)).await
    }

    /// Says what is to be known before the first step.
    fn explain(&self) {
        if let Some(waits) = &self.waits {
            note(waits);
        }
        note(&self.way_back);
    }

    fn report(&self, changed: bool, steps: Vec<Target>, message: String) -> Outcome {
        let done = Done {
            changed,
            steps,
            message,
        };
        self.order.output.print_own(&done, |done| done.message.clone())?;
        Ok(Exit::Ok)
    }
}

pub(super) async fn run(paths: &Paths, args: UpgradeArgs) -> Outcome {
    let client = Client::new(paths);
    let Some(to) = args.to else {
        return cancel(&client, args.order, args.timeout).await;
    };
    // What is on the disks of other nodes may have changed a moment ago.
    let seen: AdminStatus = client.get("/v1/status/fresh").await?;
    if let Some(node) = &args.pause_after {
        direct::known(&seen, node)?;
    }
    let steps = match to {
        Target::Version(to) => Target::versions(&path(&seen, to, Way::Up).map_err(Failure::refused)?),
        Target::Package if args.pause_after.is_some() => {
            return Err(Failure::refused(
                "--pause-after needs a version: `etcd-agent upgrade --to VERSION --pause-after NODE`",
            ));
        }
        Target::Package => package_step(&seen)?,
    };
    if args.pause_after.is_some() && steps.len() > 1 {
        return Err(Failure::refused(format!(
            "the way to {to} is {}: --pause-after needs a version that is one step away, here {}",
            in_words(&steps),
            steps.first().map(ToString::to_string).unwrap_or_default()
        )));
    }
    let wanted = Wanted {
        way: Way::Up,
        to,
        waits: waits_for_log(&seen, &steps),
        steps,
        pause_after: args.pause_after,
        no_backup: args.no_backup,
        way_back: way_back(&seen, to),
        yes: args.yes,
        order: args.order,
        timeout: args.timeout,
    };
    carry_out(&client, &seen, wanted).await
}

/// Orders each step, and waits until it is done.
pub(super) async fn carry_out(client: &Client, seen: &AdminStatus, mut wanted: Wanted) -> Outcome {
    let steps = std::mem::take(&mut wanted.steps);
    let (to, order) = (wanted.to, wanted.order);
    // The agent checks a step when it is ordered. What refuses a later one is known before the first.
    if steps.len() > 1 {
        let agent: PlanView = client.get("/v1/plan").await?;
        let refused = steps.iter().find_map(|step| match step {
            Target::Version(step) => setting_objection(&agent.observation.spec, *step),
            Target::Package => None,
        });
        if let Some(why) = refused {
            return Err(Failure::refused(why));
        }
    }
    let first = steps.first().copied().unwrap_or(to);
    if order.dry_run {
        let view = direct::order(client, wanted.change(first), order).await?;
        note(&format!("the way to {to}: {}", in_words(&steps)));
        wanted.explain();
        return direct::preview(&view, order);
    }
    let is_pending = is_pending(seen, to);
    if steps.is_empty() && !is_pending {
        all_known(seen)?;
        return wanted.report(false, steps, format!("every member runs {} already", to.etcd()));
    }
    wanted.explain();
    wanted.yes.ask(&format!(
        "etcd is restarted on one node after the other, with {}.",
        in_words(if steps.is_empty() {
            std::slice::from_ref(&to)
        } else {
            &steps
        })
    ))?;
    let deadline = Deadline::after(wanted.timeout.timeout);
    if seen.store.is_none() {
        note("no store is configured: no backup is taken first");
    } else if !wanted.no_backup && !is_pending {
        // An order that would be refused takes no backup.
        let trial = OrderArgs {
            dry_run: true,
            ..order
        };
        direct::order(client, wanted.change(first), trial).await?;
        back_up(client, &deadline).await?;
    }
    let all = if steps.is_empty() { vec![to] } else { steps };
    for step in &all {
        let view = next_step(client, wanted.change(*step), order, *step == first).await?;
        let work = until_done(client, &view.directives, *step, &deadline);
        if let Some(why) = wait::or_interrupted(work, wanted.fate()).await? {
            return Err(wanted.stops(client, &why).await);
        }
    }
    let message = match &wanted.pause_after {
        Some(node) => format!(
            "{} runs on {node}; no other node is upgraded before `etcd-agent upgrade --to {to}`",
            to.etcd()
        ),
        None => format!("{} runs on every member, and all are healthy", to.etcd()),
    };
    wanted.report(true, all, message)
}

/// Orders the next step. Right after a step its last restart may not be settled, or an agent may be silent for
/// a moment: the order is given again for a while. So is one whose answer was lost with the agent. The agent may have
/// taken it: the same version again changes nothing, and a refusal does not end the attempts.
async fn next_step(
    client: &Client,
    change: DirectiveChange,
    order: OrderArgs,
    is_first: bool,
) -> Result<DirectiveView, Failure> {
    let until = Instant::now() + SETTLES;
    let mut progress = Progress::new();
    let (mut may_settle, mut lost) = (!is_first, None);
    loop {
        let failure = match direct::order(client, change.clone(), order).await {
            Ok(view) => return Ok(view),
            Err(failure) => failure,
        };
        if failure.exit == Exit::Unreachable {
            may_settle = true;
            lost = Some(failure.text.clone());
        } else if failure.exit != Exit::Refused || !may_settle {
            return Err(failure);
        }
        if Instant::now() >= until {
            let Some(lost) = lost else { return Err(failure) };
            return Err(Failure::new(
                Exit::Unreachable,
                format!(
                    "{lost}. The agent may have taken the order: look at `etcd-agent status`. Last answer: {failure}"
                ),
            ));
        }
        progress.say(&failure.text);
        tokio::time::sleep(EVERY).await;
    }
}

pub(super) async fn cancel(client: &Client, order: OrderArgs, timeout: Timeout) -> Outcome {
    let view = direct::order(client, DirectiveChange::CancelUpgrade, order).await?;
    if order.dry_run {
        return direct::preview(&view, order);
    }
    if !view.changed {
        return direct::report(&view, &Silent::default(), "it was cancelled already", order);
    }
    back(client, &view, &Deadline::after(timeout.timeout)).await?;
    direct::report(
        &view,
        &Silent::default(),
        "cancelled: all members run the etcd of before",
        order,
    )
}

/// Waits until all members run the etcd of before.
async fn back(client: &Client, cancelled: &DirectiveView, deadline: &Deadline) -> Result<(), Failure> {
    let work = until_back(client, &cancelled.directives, deadline);
    wait::or_interrupted(work, "the nodes go back all the same").await
}

async fn back_up(client: &Client, deadline: &Deadline) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let view = wait::submit(client, &OperatorRequest::Backup).await?;
    let work = wait::done(client, view, deadline, &mut progress);
    let view = wait::or_interrupted(work, "nothing was upgraded").await?;
    drop(progress);
    note(&format!("backup: {}", view.message));
    Ok(())
}

/// One step if a member does not run the etcd of its package. The agent checks it.
fn package_step(status: &AdminStatus) -> Result<Vec<Target>, Failure> {
    if members(status).next().is_none() {
        return Err(Failure::refused(
            "no etcd runs on any node: there is nothing to upgrade",
        ));
    }
    let others = members(status).any(|(_, seen)| !Target::Package.runs(seen));
    Ok(others.then_some(Target::Package).into_iter().collect())
}

/// True while it is selected and a member may not run it yet: one that does not answer may run another.
fn is_pending(status: &AdminStatus, to: Target) -> bool {
    let selected = status.node.selected_etcd();
    let selected = selected.is_some_and(|selected| match to {
        Target::Version(to) => selected.version == Some(to),
        Target::Package => selected.version.is_none(),
    });
    let mut known = members(status);
    selected && (known.any(|(_, seen)| !to.runs(seen)) || !health::silent_members(status).is_empty())
}

/// Refuses to say which etcd runs on nodes that do not answer.
pub(super) fn all_known(status: &AdminStatus) -> Result<(), Failure> {
    let silent = health::silent_members(status);
    if silent.is_empty() {
        return Ok(());
    }
    let silent: Vec<&str> = silent.into_iter().map(NodeName::as_str).collect();
    Err(Failure::refused(format!(
        "no answer from {}, so it is not known which etcd runs there: start the agent there, and give the command again",
        silent.join(", ")
    )))
}

fn in_words(steps: &[Target]) -> String {
    let steps = steps.iter().map(|step| match step {
        Target::Version(version) => version.to_string(),
        Target::Package => step.etcd(),
    });
    let steps: Vec<String> = steps.collect();
    if steps.is_empty() {
        return "nothing to do".to_owned();
    }
    steps.join(", then ")
}

/// What is to be known of a step to an etcd that panics on entries of etcd 3.5 in its log. How soon etcd drops them
/// depends on its clients, so the command may end before that step.
pub(super) fn waits_for_log(status: &AdminStatus, steps: &[Target]) -> Option<String> {
    let to = steps.last()?;
    let versions = steps.iter().map(|step| match step {
        Target::Version(version) => Some(*version),
        Target::Package => None,
    });
    let versions: Vec<EtcdVersion> = versions.collect::<Option<_>>()?;
    let (before, step) = log_step(status, &versions)?;
    Some(format!(
        "the step to {step} waits until no member's log holds entries of etcd 3.5, on which {step} panics: etcd {before} \
         drops them when it writes its next snapshot of raft, by default after 10,000 changes. If that takes more than {} s \
         after the step to {before}, the command ends there with a refusal and all members stay at {before}; \
         `etcd-agent upgrade --to {to}` continues later. With few writes set etcd.settings snapshot-count = \"100\" on all \
         hosts and reload the agents, now or then",
        SETTLES.as_secs()
    ))
}

/// What an operator can do if the new version does not do well.
fn way_back(status: &AdminStatus, to: Target) -> String {
    let etcd = to.etcd();
    let backup = if status.store.is_some() {
        "restore the backup that is taken first, or an older one, with the former etcd"
    } else {
        "there is none without a backup"
    };
    // etcd 3.5 does not report whether 3.4 still opens its data.
    let oldest = members(status).filter_map(|(_, seen)| running(seen)).min();
    let newest = members(status).filter_map(|(_, seen)| to.on(seen)).max();
    let converts = newest.is_some_and(|to| to.series() >= (3, 5));
    if let Some(oldest) = oldest.filter(|oldest| converts && oldest.series() < (3, 5)) {
        return format!("the way back: a member that runs {etcd} does not return to {oldest}; {backup}");
    }
    format!(
        "the way back: while a member still runs the former etcd, `etcd-agent upgrade --cancel`; once all run {etcd}: {backup}"
    )
}
