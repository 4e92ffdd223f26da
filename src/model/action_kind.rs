//! The kinds of actions: their names in logs, metrics and events, and the keys of what the planner remembers
//! of failed ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::action::Action;

/// Declares the kinds and their names.
macro_rules! action_kinds {
    ($($variant:ident => $name:literal,)*) => {
        /// What an [`Action`] does, without its fields.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum ActionKind {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl ActionKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// A short stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl Action {
            /// The kind of this action.
            pub fn kind(&self) -> ActionKind {
                match self {
                    $(Self::$variant { .. } => ActionKind::$variant,)*
                }
            }

            /// The name of its kind.
            pub fn name(&self) -> &'static str {
                self.kind().as_str()
            }
        }
    };
}

action_kinds! {
    Enquire => "enquire",
    Propose => "propose",
    Confirm => "confirm",
    TakeDirectives => "take-directives",
    Assign => "assign",
    Apply => "apply",
    InspectData => "inspect-data",
    FetchBackup => "fetch-backup",
    StageRestore => "stage-restore",
    ReplaceData => "replace-data",
    ClearGate => "clear-gate",
    StartEtcd => "start-etcd",
    CancelStart => "cancel-start",
    CheckRemoval => "check-removal",
    StopRemoved => "stop-removed",
    RememberSpec => "remember-spec",
    UpdateMember => "update-member",
    StopEtcd => "stop-etcd",
    RemoveMember => "remove-member",
    TakeOut => "take-out",
    AddLearner => "add-learner",
    Promote => "promote",
    MoveLeader => "move-leader",
    Downgrade => "downgrade",
    RestartEtcd => "restart-etcd",
    Defrag => "defrag",
    Compact => "compact",
    DisarmNoSpace => "disarm-no-space",
    CheckHashes => "check-hashes",
    SetRebootLock => "set-reboot-lock",
    ConfirmRebootLock => "confirm-reboot-lock",
    Backup => "backup",
    Increments => "increments",
    Flush => "flush",
    Prune => "prune",
    Verify => "verify",
    HandOver => "hand-over",
    Answer => "answer",
}

impl ActionKind {
    /// True for an action that starts a background job: when it has been carried out, the job has only begun.
    pub fn begins_a_job(self) -> bool {
        matches!(
            self,
            Self::FetchBackup
                | Self::StageRestore
                | Self::Backup
                | Self::Increments
                | Self::Prune
                | Self::Verify
                | Self::Defrag
                | Self::Compact
                | Self::CheckHashes
        )
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_stored_under_its_name() {
        for kind in ActionKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
