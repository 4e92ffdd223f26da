//! The few messages of etcd's API that `etcd-client` does not offer in the form that the agent needs: among
//! them the linearizable member list, and snapshot chunks that are not copied. Field numbers: etcd's
//! `api/etcdserverpb/rpc.proto`.

use bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(super) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(super) raft_term: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

/// `etcd-client` leaves out what etcd 3.6 has added.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) db_size: i64,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(uint64, tag = "5")]
    pub(super) raft_index: u64,
    #[prost(uint64, tag = "6")]
    pub(super) raft_term: u64,
    #[prost(uint64, tag = "7")]
    pub(super) raft_applied_index: u64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(super) is_learner: bool,
    #[prost(string, tag = "11")]
    pub(super) storage_version: String,
    #[prost(message, optional, tag = "13")]
    pub(super) downgrade: Option<DowngradeInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DowngradeInfo {
    #[prost(bool, tag = "1")]
    pub(super) enabled: bool,
    #[prost(string, tag = "2")]
    pub(super) target_version: String,
}

/// `DowngradeRequest.DowngradeAction`
pub(super) const VALIDATE: i32 = 0;
/// `DowngradeRequest.DowngradeAction`
pub(super) const ENABLE: i32 = 1;
/// `DowngradeRequest.DowngradeAction`
pub(super) const CANCEL: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DowngradeRequest {
    #[prost(int32, tag = "1")]
    pub(super) action: i32,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DowngradeResponse {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(super) linearizable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

/// Without an action it lists all alarms.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(super) member_id: u64,
    #[prost(int32, tag = "2")]
    pub(super) alarm: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SnapshotRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SnapshotResponse {
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) blob: Bytes,
}

/// Of both `UserList` and `RoleList`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthListRequest {}

/// The names of all users, or of all roles.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthListResponse {
    #[prost(string, repeated, tag = "2")]
    pub(super) names: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthStatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthStatusResponse {
    #[prost(bool, tag = "2")]
    pub(super) enabled: bool,
    #[prost(uint64, tag = "3")]
    pub(super) auth_revision: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

/// The token is of no use here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthenticateResponse {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<WatchEvent>,
}

/// `mvccpb.Event`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchEvent {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    /// A `mvccpb.KeyValue` in etcd's encoding. etcd stores the same bytes in its database.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) kv: Bytes,
}

/// The fields of a `mvccpb.KeyValue` that the agent reads.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}
