//! `etcd-agent alarm list|disarm`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::confirm::Yes;
use super::direct;
use super::exit::{Exit, Outcome};
use super::out::{self, Output};
use crate::model::{AdminStatus, Alarm, AlarmKind, DisarmOrder, DisarmView, NodeName};
use crate::paths::Paths;

/// List or disarm etcd's alarms
///
/// While one is raised, etcd accepts no writes.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AlarmVerb {
    /// List the alarms that members have raised
    List(Output),
    /// Disarm alarms whose cause is gone
    Disarm(DisarmArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct DisarmArgs {
    /// NOSPACE or CORRUPT; default: all alarms
    alarm: Option<AlarmKind>,
    /// Only the alarms of this node's member
    #[arg(long)]
    node: Option<NodeName>,
    /// Also if the cause does not seem to be gone
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output,
}

/// The answer, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Disarmed {
    /// False if there was no such alarm.
    pub(super) changed: bool,
    #[serde(flatten)]
    pub(super) view: DisarmView,
}

pub(super) async fn run(paths: &Paths, verb: AlarmVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        AlarmVerb::List(output) => {
            let alarms: Vec<Alarm> = client.get("/v1/alarms").await?;
            output.list("alarms", &alarms, list)?;
        }
        AlarmVerb::Disarm(args) => {
            if let Some(node) = &args.node {
                let seen: AdminStatus = client.get("/v1/status").await?;
                direct::known(&seen, node)?;
            }
            if args.force {
                args.yes
                    .ask("The alarms are disarmed even if their cause is not gone; etcd then accepts writes again.")?;
            }
            let order = DisarmOrder {
                alarm: args.alarm,
                node: args.node,
                force: args.force,
            };
            let view: DisarmView = client.post("/v1/alarms/disarm", &order).await?;
            let answer = Disarmed {
                changed: !view.disarmed.is_empty(),
                view,
            };
            args.output.print(&answer, |answer| disarmed(&answer.view))?;
        }
    }
    Ok(Exit::Ok)
}

/// A table of alarms.
fn list(alarms: &[Alarm]) -> String {
    if alarms.is_empty() {
        return "No alarms.\n".to_owned();
    }
    let row = |alarm: &Alarm| {
        let node = alarm.node.as_ref().map_or("?", |node| node.as_str());
        vec![
            alarm.alarm.to_string(),
            node.to_owned(),
            alarm.member_id.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = alarms.iter().map(row).collect();
    out::table(&["ALARM", "NODE", "MEMBER"], &rows)
}

fn disarmed(view: &DisarmView) -> String {
    let mut text = String::new();
    for alarm in &view.disarmed {
        let _ = writeln!(
            text,
            "The alarm {} of member {} on {} is disarmed.",
            alarm.alarm,
            alarm.member_id,
            alarm.node_name()
        );
    }
    if view.disarmed.is_empty() {
        text.push_str("There was no such alarm.\n");
    }
    if !view.left.is_empty() {
        let _ = write!(text, "\nStill raised:\n{}", list(&view.left));
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::MemberId;

    #[test]
    fn what_is_disarmed_and_what_is_left() {
        let alarm = |node: Option<&str>, alarm| Alarm {
            member_id: MemberId(0xcafe),
            node: node.map(|node| NodeName::new(node).unwrap()),
            alarm,
        };
        assert_eq!(list(&[]), "No alarms.\n");
        assert_eq!(
            list(&[
                alarm(Some("n1"), AlarmKind::NoSpace),
                alarm(None, AlarmKind::Corrupt)
            ]),
            "ALARM    NODE  MEMBER\nNOSPACE  n1    cafe\nCORRUPT  ?     cafe\n"
        );
        let nothing = DisarmView::default();
        assert_eq!(disarmed(&nothing), "There was no such alarm.\n");
        let one = DisarmView {
            disarmed: vec![alarm(Some("n1"), AlarmKind::NoSpace)],
            left: vec![alarm(Some("n2"), AlarmKind::Corrupt)],
        };
        assert_eq!(
            disarmed(&one),
            "The alarm NOSPACE of member cafe on n1 is disarmed.\n\nStill raised:\n\
             ALARM    NODE  MEMBER\nCORRUPT  n2    cafe\n"
        );
    }
}
