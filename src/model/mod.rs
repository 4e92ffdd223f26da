//! Plain data that every layer uses: identifiers, facts, the spec, genesis, assignment,
//! observation and decision. Nothing here does IO, and nothing here imports the rest of the crate.

mod action;
mod action_kind;
mod admin;
mod alarm;
mod assignment;
mod backoff;
mod backup;
mod backup_failure;
mod backup_summary;
mod calendar;
mod change;
mod corruption;
mod decision;
mod directives;
mod etcd_flags;
mod etcd_version;
mod event;
mod fact;
mod genesis;
mod grant;
pub mod health;
mod ids;
mod job;
mod last_words;
mod log_level;
mod marks;
mod member;
mod observation;
mod paxos;
mod quarantine;
mod reason;
mod reboot_lock;
mod recent_backup;
mod running;
mod size;
mod space;
mod spec;
mod status;
mod stop;
#[cfg(test)]
pub(crate) mod testing;
mod time;
mod tls_files;
mod transport;
mod v2;
mod verification;
pub mod visible;
mod vitals;
pub mod wording;

pub use action::{Action, Removal, StartFence};
pub use action_kind::ActionKind;
pub use admin::{
    AdminStatus, ApiError, CopyStatus, DirectiveOrder, DirectiveView, PlanView, ReloadView, RequestState,
    RequestView, SizeOrder, SizeView,
};
pub use alarm::{Alarm, AlarmKind, DisarmOrder, DisarmView};
pub use assignment::{Assignment, FirstStart, GateState, InitialSettings, InitialState, Role};
pub use backoff::Backoff;
pub use backup::{
    BackupFormat, BackupSpec, BackupView, ChainView, CommandName, Keep, ListedBackup, Page, RestoreTarget,
    Retention, StoreCommand, StoredBackup, Verdict, Writer,
};
pub use backup_failure::Cause;
pub use backup_summary::BackupSummary;
pub use calendar::{Calendar, CalendarError};
pub use change::{KeyChange, Past, RevisionChanges, Watched};
pub use corruption::{Differences, HashCheck, MemberHash, RepairSpec};
pub use decision::{Decision, LearnerProgress, Memory};
pub use directives::{DirectiveChange, Directives, EtcdSelection, NodeOrder, Paused};
pub use etcd_flags::{etcd_flags, ignores_flag, is_etcd_flag, is_etcd_variable};
pub use etcd_version::{EtcdVersion, etcd_or_package, forgets_promotions, is_old, is_too_old};
pub use event::{Event, EventOutcome, EventsView};
pub use fact::Fact;
pub use genesis::{
    EpochEtcd, Genesis, MOST_NODES, Origin, TOKEN_BYTES, cluster_id_of, member_id_of, memories_lost, token_of,
};
pub use grant::{Grant, GrantPurpose};
pub use ids::{
    BackupId, Ballot, ClusterId, ClusterName, Epoch, Generation, IdError, Incarnation, MemberId, NodeName,
    RaftTerm, Revision,
};
pub use job::Job;
pub use last_words::{LastWords, Trouble};
pub use log_level::{LogLevel, LogOrder, LogView};
pub use marks::{BackupChange, BackupChangeView, BackupOrder, Kept, MARK_CHARS, Marks, Note, text_objection};
pub use member::{Member, MemberList, are_tls, same_endpoint};
pub use observation::{
    BaseView, Denial, DriftView, ElectorView, GateView, InForce, Observation, OperatorRequest, RemovalView,
    StoreView,
};
pub use paxos::{
    Accept, AcceptReply, ElectorRecord, Enquire, EnquireAnswer, EnquireReply, EpochVotes, Learn, Prepare,
    PrepareReply, Refusal,
};
pub use quarantine::{
    CHECKS_USERS_IN_QUARANTINE, NOSPACE_LIFTS_QUARANTINE, QUARANTINE, QuarantineOrder, QuarantineView,
    is_quarantine, seal,
};
pub use reason::{Reason, ReasonCode};
pub use reboot_lock::{LockOwner, RebootHold, RebootLock, RebootLocks, RecordedLock, ReleaseView};
pub use recent_backup::{RecentBackup, SeenVerification};
pub use running::{BaseEtcd, EtcdRun, RestartWish};
pub use size::{MOST_VOTERS, SizeChange, SizeSource, SpecRecord, unwise_size};
pub use space::{Compaction, DefragEnd, DefragView, DefragWish, SpaceSpec, crowded_at, is_full};
pub use spec::{EtcdSpec, Join, Spec, TlsFiles, default_versions_dir, digest, electorate_digest, hex};
pub use status::{
    ActiveState, AssignmentSummary, DataState, EtcdBinaries, EtcdStatus, LeaderAsk, LoadState, NodeStatus,
    Steering, UnitState,
};
pub use stop::{
    Fault, FurtherFault, Hypothesis, HypothesisError, HypothesisView, Leave, StopVerdict, VotersLeft,
};
pub use time::{SteadyMs, UnixMs};
pub use tls_files::{TlsFinding, TlsUse, TlsView};
pub use transport::{ApiRecord, Over, Transport, TransportView};
pub use v2::{V2Key, V2Names, V2View, WITHOUT_V2, drops_v2, without_v2};
pub use verification::{Fingerprint, KvHash, Verified, VerifyView};
pub use vitals::Vitals;
