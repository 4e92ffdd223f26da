//! Why the planner does or does not do something: a stable code for programs and a line for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares the codes and their strings.
macro_rules! reason_codes {
    ($($variant:ident => $code:literal,)*) => {
        /// A stable code in kebab case, e.g. `waiting-for-electors`. `docs/reasons.md` explains each.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum ReasonCode {
            $(#[doc = concat!("`", $code, "`")] $variant,)*
            /// A code from another version of the agent.
            Other(String),
        }

        impl ReasonCode {
            /// Every code of this version.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as a string.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Other(code) => code,
                }
            }
        }

        impl From<&str> for ReasonCode {
            fn from(code: &str) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

reason_codes! {
    AddLearner => "add-learner",
    AddressChanged => "address-changed",
    AddressTaken => "address-taken",
    AgentSilent => "agent-silent",
    AllDataLost => "all-data-lost",
    Archive => "archive",
    AwaitingStop => "awaiting-stop",
    BackupAsked => "backup-asked",
    BackupAuth => "backup-auth",
    BackupBad => "backup-bad",
    BackupBeforeChange => "backup-before-change",
    BackupDue => "backup-due",
    BackupFailed => "backup-failed",
    BackupForeign => "backup-foreign",
    BackupGap => "backup-gap",
    BackupIncrements => "backup-increments",
    BackupStandIn => "backup-stand-in",
    BackupUnchanged => "backup-unchanged",
    BelowSize => "below-size",
    CannotArchive => "cannot-archive",
    CertificateUnusable => "certificate-unusable",
    ClockSkew => "clock-skew",
    CommandWaiting => "command-waiting",
    DamageUnproven => "damage-unproven",
    DataDiffers => "data-differs",
    DataGone => "data-gone",
    DataInTheWay => "data-in-the-way",
    DataUnknown => "data-unknown",
    DataWithoutEpoch => "data-without-epoch",
    DefragGranted => "defrag-granted",
    DefragWaits => "defrag-waits",
    Defragmenting => "defragmenting",
    DiskError => "disk-error",
    DiskReadOnly => "disk-read-only",
    Downgrade => "downgrade",
    DuplicateMember => "duplicate-member",
    DuplicateNode => "duplicate-node",
    ElectorateDiffers => "electorate-differs",
    EpochDenied => "epoch-denied",
    EpochHearsay => "epoch-hearsay",
    EpochOpening => "epoch-opening",
    EpochOutdated => "epoch-outdated",
    EpochRefused => "epoch-refused",
    EpochUnconfirmed => "epoch-unconfirmed",
    EtcdAlarm => "etcd-alarm",
    EtcdDown => "etcd-down",
    EtcdSilent => "etcd-silent",
    EtcdTooOld => "etcd-too-old",
    FetchFirst => "fetch-first",
    Fetching => "fetching",
    ForeignCluster => "foreign-cluster",
    ForeignData => "foreign-data",
    ForeignMember => "foreign-member",
    Founder => "founder",
    GenesisDiffers => "genesis-differs",
    Grace => "grace",
    HandedOver => "handed-over",
    HashCheckDue => "hash-check-due",
    HashCheckFailed => "hash-check-failed",
    HistoryWentBack => "history-went-back",
    IncrementsDue => "increments-due",
    IncrementsFailed => "increments-failed",
    InvitationHearsay => "invitation-hearsay",
    JoinBackoff => "join-backoff",
    Joiner => "joiner",
    LeaderAsked => "leader-asked",
    LeaderFirst => "leader-first",
    LeaderLast => "leader-last",
    LeaderLater => "leader-later",
    LeaderMoves => "leader-moves",
    LearnerAbandoned => "learner-abandoned",
    LearnerJoins => "learner-joins",
    LearnerStarting => "learner-starting",
    LearnerStuck => "learner-stuck",
    LearnerSurplus => "learner-surplus",
    LearnerUnstarted => "learner-unstarted",
    LearnerWaits => "learner-waits",
    LostMembership => "lost-membership",
    MemberBehind => "member-behind",
    MembersUnknown => "members-unknown",
    MemoriesLost => "memories-lost",
    NewMemory => "new-memory",
    NoCandidate => "no-candidate",
    NoEpoch => "no-epoch",
    NoEtcdUnit => "no-etcd-unit",
    NoLeader => "no-leader",
    NoMajority => "no-majority",
    NoSpace => "no-space",
    NoSpare => "no-spare",
    NotAgreed => "not-agreed",
    NotAnElector => "not-an-elector",
    NotApplied => "not-applied",
    NotMyTurn => "not-my-turn",
    NotPermitted => "not-permitted",
    NotWhole => "not-whole",
    OnlyVoter => "only-voter",
    OrderedOut => "ordered-out",
    OrdersRefused => "orders-refused",
    OtherElectorate => "other-electorate",
    OwnData => "own-data",
    Paused => "paused",
    PausedStart => "paused-start",
    Promote => "promote",
    PromotionNotStored => "promotion-not-stored",
    ProposeGenesis => "propose-genesis",
    PruneAsked => "prune-asked",
    PruneDead => "prune-dead",
    PruneDue => "prune-due",
    PruneFailed => "prune-failed",
    Quarantine => "quarantine",
    QuorumLost => "quorum-lost",
    RebootLockAcquired => "reboot-lock-acquired",
    RebootLockConfirmed => "reboot-lock-confirmed",
    RebootLockGranted => "reboot-lock-granted",
    RebootLockHeld => "reboot-lock-held",
    RebootLockReleased => "reboot-lock-released",
    RebootLockWaits => "reboot-lock-waits",
    RemovalDeferred => "removal-deferred",
    RemovalHearsay => "removal-hearsay",
    RemovalNotAllowed => "removal-not-allowed",
    RemovalUnconfirmed => "removal-unconfirmed",
    RemovalUnfinished => "removal-unfinished",
    RemoveUnstartedVoter => "remove-unstarted-voter",
    Removed => "removed",
    ReplaceCorrupt => "replace-corrupt",
    ReplaceDead => "replace-dead",
    ReplaceGone => "replace-gone",
    Restart => "restart",
    RestartGranted => "restart-granted",
    RestartManual => "restart-manual",
    RestartUnused => "restart-unused",
    RestartWaits => "restart-waits",
    RestartWanted => "restart-wanted",
    Restarting => "restarting",
    RestoreActivated => "restore-activated",
    RestoreFailed => "restore-failed",
    Restoring => "restoring",
    SettingIgnored => "setting-ignored",
    SettingsChanged => "settings-changed",
    SettingsDrift => "settings-drift",
    SettingsOverridden => "settings-overridden",
    Shrink => "shrink",
    SizeUnconfirmed => "size-unconfirmed",
    SizeUnknown => "size-unknown",
    Spare => "spare",
    SpecDiffers => "spec-differs",
    SpecInvalid => "spec-invalid",
    Start => "start",
    StartBackoff => "start-backoff",
    StartUnassigned => "start-unassigned",
    StartWithoutData => "start-without-data",
    StartedOnce => "started-once",
    Starting => "starting",
    StoppedByOperator => "stopped-by-operator",
    Stopping => "stopping",
    StoreDiffers => "store-differs",
    StoreIgnoresConditions => "store-ignores-conditions",
    StoreUnreachable => "store-unreachable",
    StoreWithoutEpoch => "store-without-epoch",
    TlsFilesUnusable => "tls-files-unusable",
    TooFewHealthy => "too-few-healthy",
    TooManyLearners => "too-many-learners",
    TransportDiffers => "transport-differs",
    TransportSwitch => "transport-switch",
    TransportWaits => "transport-waits",
    TwoGeneses => "two-geneses",
    UnitUnknown => "unit-unknown",
    UnknownMember => "unknown-member",
    Upgrade => "upgrade",
    UpgradePaused => "upgrade-paused",
    UpgradeRefused => "upgrade-refused",
    VerifyAsked => "verify-asked",
    VerifyDue => "verify-due",
    VerifyFailed => "verify-failed",
    VoterUnstarted => "voter-unstarted",
    VotesMissing => "votes-missing",
    WaitingForElectors => "waiting-for-electors",
    WaitingForEntry => "waiting-for-entry",
}

impl From<String> for ReasonCode {
    fn from(code: String) -> Self {
        Self::from(code.as_str())
    }
}

impl From<ReasonCode> for String {
    fn from(code: ReasonCode) -> Self {
        code.as_str().to_owned()
    }
}

impl PartialEq<str> for ReasonCode {
    fn eq(&self, code: &str) -> bool {
        self.as_str() == code
    }
}

impl PartialEq<&str> for ReasonCode {
    fn eq(&self, code: &&str) -> bool {
        self.as_str() == *code
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the planner does or does not do something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The code.
    pub code: ReasonCode,
    /// One line.
    pub text: String,
    /// True if the planner refuses to continue until a person acts.
    pub halt: bool,
}

impl Reason {
    /// An ordinary reason.
    pub fn new(code: impl Into<ReasonCode>, text: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            text: text.into(),
            halt: false,
        }
    }

    /// A reason to halt: a state that must not occur, or that only a person may resolve.
    pub fn halt(code: impl Into<ReasonCode>, text: impl Into<String>) -> Self {
        Self {
            halt: true,
            ..Self::new(code, text)
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_its_string_in_json() {
        for code in ReasonCode::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ReasonCode>(&json).unwrap(), *code);
        }
        let other: ReasonCode = serde_json::from_str("\"of-tomorrow\"").unwrap();
        assert_eq!(other, ReasonCode::Other("of-tomorrow".to_owned()));
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"of-tomorrow\"");
    }
}
