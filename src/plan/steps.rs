//! The steps that follow from an order, in words.

use std::collections::BTreeSet;

use crate::model::{DirectiveChange, NodeName, OperatorRequest};

/// The steps that follow from this order, one line each.
pub fn steps(change: &DirectiveChange) -> Vec<String> {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    match change {
        DirectiveChange::Pause => lines(&[
            "every agent stops acting by itself: no member is added, removed or replaced, nothing is restarted or started, \
             no backup is due",
            "requests of a person are still carried out, and data is still kept safe",
        ]),
        DirectiveChange::Resume => lines(&["every agent acts by itself again"]),
        DirectiveChange::Remove { node } => vec![
            format!("if {node} leads, another member leads first"),
            format!("the member of {node} is removed while the others keep a healthy quorum"),
            format!("{node} is a spare that stays out until `etcd-agent member add {node}`"),
            "a spare takes its place, if one is there and a member is missing".to_owned(),
        ],
        DirectiveChange::Add { node } => vec![format!(
            "{node} may be a member again: it joins as a learner when a member is missing, and gets its vote once it \
             has caught up"
        )],
        DirectiveChange::Restart { nodes } => one_after_the_other("restarted", nodes),
        DirectiveChange::Defrag { nodes } => one_after_the_other("defragmented", nodes),
        DirectiveChange::ReleaseRebootLock { node, .. } => vec![format!(
            "{node} no longer holds the reboot lock: etcd on another node may be restarted, and another host may reboot"
        )],
        DirectiveChange::Upgrade { to, pause_after } => {
            let mut steps = vec![
                format!(
                    "etcd is restarted with {to} on one node after the other, each only while all members are healthy"
                ),
                "the raft leader comes last, after another member leads".to_owned(),
            ];
            if let Some(node) = pause_after {
                steps = vec![
                    format!(
                        "etcd on {node} is restarted with {to}; if {node} leads, another member leads first"
                    ),
                    format!(
                        "no other node is upgraded before `etcd-agent upgrade --to {to}` is ordered again"
                    ),
                ];
            }
            steps
        }
        DirectiveChange::Downgrade { to } => vec![
            format!(
                "etcd converts its data to the format of {}.{}, if it has a newer one",
                to.major, to.minor
            ),
            format!(
                "etcd is restarted with {to} on one node after the other, each only while all members are healthy"
            ),
            "the raft leader comes last, after another member leads".to_owned(),
        ],
        DirectiveChange::FollowPackage => lines(&[
            "etcd is restarted with the binary of etcd.service itself on one node after the other, each only while all \
             members are healthy",
            "the raft leader comes last, after another member leads",
            "from then on, a package that replaces this binary is followed in the same way",
        ]),
        DirectiveChange::CancelUpgrade => lines(&[
            "no further node gets the version that was ordered",
            "nodes that have it go back to the etcd of before, one at a time; an etcd that is down goes back at once",
        ]),
        DirectiveChange::CancelDefrag => {
            lines(&["no further etcd is defragmented by order; a defragmentation that is under way goes on"])
        }
        DirectiveChange::CancelRestart => {
            lines(&["no further node is restarted by order; a restart that is under way goes on"])
        }
    }
}

/// What is done to etcd on these nodes.
fn one_after_the_other(done: &str, nodes: &BTreeSet<NodeName>) -> Vec<String> {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    vec![
        format!(
            "etcd is {done} on {}, one node at a time, each only while all members are healthy",
            names.join(", ")
        ),
        "the raft leader comes last, after another member leads".to_owned(),
    ]
}

/// The steps that follow from this request, one line each.
pub fn request_steps(request: &OperatorRequest) -> Vec<String> {
    match request {
        OperatorRequest::MoveLeader { to: Some(to), .. } => {
            vec![format!(
                "the raft leader moves to {to}, if its member has a vote and is healthy"
            )]
        }
        OperatorRequest::MoveLeader { to: None, .. } => {
            vec!["the raft leader moves to the healthy follower that has the most of the log".to_owned()]
        }
        OperatorRequest::Verify { backup } => vec![format!(
            "{backup} is fetched, checked, restored into a throw-away etcd and compared"
        )],
        OperatorRequest::Increment => {
            vec!["what was written until now is stored as an increment".to_owned()]
        }
        OperatorRequest::RebootLock { .. } => vec![
            "once all members are healthy and no other node holds the lock, this node takes it".to_owned(),
            "until it is released, no other host gets the lock, and etcd on no other node is restarted or removed"
                .to_owned(),
        ],
        OperatorRequest::Prune => {
            vec!["backups that retention no longer wants are removed from the store".to_owned()]
        }
        OperatorRequest::BackupAs { format } => vec![format!(
            "this node takes a full backup in the {} format",
            format.as_str()
        )],
        OperatorRequest::Backup => vec!["this node takes a full backup".to_owned()],
        OperatorRequest::Restore { backup, etcd, .. } => {
            let with = etcd.map_or_else(String::new, |etcd| format!(" with etcd {}", etcd.version));
            vec![
                format!("{backup} is fetched, checked, and restored next to the old data"),
                format!("a new epoch opens on all nodes{with}, and the old data goes into the archive"),
            ]
        }
        OperatorRequest::Bootstrap { .. } => vec!["the first cluster is formed".to_owned()],
        OperatorRequest::ConfirmEpoch { epoch, token } => vec![
            format!("the electors are asked once more; if a majority denies epoch {epoch}, nothing changes"),
            format!(
                "this node follows epoch {epoch} ({token}): an etcd of an older epoch stops, and its data goes into the archive"
            ),
        ],
    }
}
