//! This node's etcd: its address, its connection, and calls with a deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, ConnectOptions};
use hyper::http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use super::channel::{Address, Connector};
use super::errors::{Kind, client_error, no_answer, status_error};
use super::{probe, proto, watch};
use crate::config::Settings;
use crate::model::{AlarmKind, EtcdVersion, MemberId, NodeName, TlsFiles};
use crate::ports::{Etcd, PortError, PortResult};

/// The revision of an authentication store without a user or a role.
const NO_USERS_YET: u64 = 1;

/// How long a request about members may take.
pub(super) const MEMBERS: Duration = Duration::from_secs(5);

/// The local etcd.
pub struct LocalEtcd {
    pub(super) connector: Connector,
    /// The addresses of the other nodes' etcds.
    pub(super) others: BTreeMap<NodeName, Address>,
    /// The agent's own certificate, which it presents to etcd; etcd's if there is none.
    pub(super) own: Option<TlsFiles>,
    /// The largest message of a watch, in bytes.
    pub(super) watch_limit: usize,
    /// etcd's version as last seen: 3.4 does not support linearizable member lists.
    pub(super) version: Mutex<String>,
}

impl LocalEtcd {
    /// The etcd of this node. This does not connect yet. Over TLS the agent presents its own API certificate
    /// (etcd's certificate if the API is insecure), and verifies etcd's certificate against
    /// `etcd.client_tls.ca_file`.
    pub fn new(settings: &Settings) -> Self {
        let spec = &settings.spec;
        let address = |node: &NodeName| {
            let host = spec.client_host(node).unwrap_or_default().to_owned();
            Address {
                url: spec.client_url(node).unwrap_or_else(|| host.clone()),
                host,
                port: spec.etcd.client_port,
                node: node.as_str().to_owned(),
            }
        };
        let own_files = settings.api.tls.clone();
        let etcd = spec.etcd.client_tls.as_ref();
        let files = etcd.map(|etcd| presented(own_files.as_ref(), etcd));
        let own = Address {
            host: spec.own_client_host().to_owned(),
            ..address(&spec.node)
        };
        let others = spec.nodes.keys().filter(|node| **node != spec.node);
        Self {
            others: others.map(|node| (node.clone(), address(node))).collect(),
            own: own_files,
            watch_limit: watch::limit(
                spec.etcd
                    .settings
                    .get("max-request-bytes")
                    .and_then(|bytes| bytes.parse().ok()),
            ),
            ..Self::at(own, files)
        }
    }

    /// The member at this client URL. Over `https`, `files` holds the certificate to present and the CA to
    /// verify the member against.
    ///
    /// # Errors
    /// A text that says what is wrong with the URL.
    pub fn at_url(url: &str, files: Option<TlsFiles>) -> Result<Self, String> {
        // A password would end up in the journal.
        if url.contains('@') {
            return Err(
                "a client URL must not contain a user or a password: expected e.g. https://10.0.0.1:2379"
                    .to_owned(),
            );
        }
        let wrong = |why: &str| format!("{url:?} is not a client URL: {why}, e.g. https://10.0.0.1:2379");
        let parsed: hyper::Uri = url.parse().map_err(|_| wrong("it cannot be read"))?;
        let host = parsed.host().ok_or_else(|| wrong("it names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let files = match parsed.scheme_str() {
            Some("http") => None,
            Some("https") if files.is_none() => {
                return Err(format!("{url} needs certificates: --cacert, --cert and --key"));
            }
            Some("https") => files,
            _ => return Err(wrong("it begins with neither http nor https")),
        };
        Ok(Self::at(
            Address {
                node: host.clone(),
                host,
                port: parsed.port_u16().unwrap_or(2379),
                url: url.to_owned(),
            },
            files,
        ))
    }

    pub(super) fn at(address: Address, files: Option<TlsFiles>) -> Self {
        Self {
            connector: Connector::new(address, files),
            others: BTreeMap::new(),
            own: None,
            watch_limit: watch::limit(None),
            version: Mutex::default(),
        }
    }

    pub(super) fn what(&self, doing: &str) -> String {
        format!("{doing} at etcd {}", self.connector.url())
    }

    /// A channel to the member, and the description of the request for error messages.
    fn channel(&self, doing: &str) -> PortResult<(String, Channel)> {
        let what = self.what(doing);
        match self.connector.channel() {
            Ok(channel) => Ok((what, channel)),
            Err(why) => {
                self.connector.try_another();
                Err(PortError::Retryable(format!("{what}: {why}")))
            }
        }
    }

    /// The error of a request. Where etcd may serve in more than one way, another one is tried next.
    fn failed(&self, error: PortError) -> PortError {
        if matches!(error, PortError::Retryable(_)) {
            self.connector.try_another();
        }
        error
    }

    /// One call of `etcd-client`, with a deadline.
    pub(super) async fn call<T, F, C>(
        &self,
        doing: &str,
        kind: Kind,
        deadline: Duration,
        call: C,
    ) -> PortResult<T>
    where
        C: FnOnce(Client) -> F + Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let (what, channel) = self.channel(doing)?;
        let asked = async {
            let options = ConnectOptions::new();
            let client = Client::from_channel(etcd_client::Channel::Tonic(channel), Some(options)).await?;
            call(client).await
        };
        match timeout(deadline, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failed(client_error(&what, kind, error))),
            Err(_) => {
                self.connector.reset();
                self.connector.try_another();
                Err(no_answer(&what, kind, deadline))
            }
        }
    }

    /// One read that `etcd-client` does not offer in the form that the agent needs.
    pub(super) async fn unary<M, T>(&self, doing: &str, path: &'static str, message: M) -> PortResult<T>
    where
        M: prost::Message + 'static,
        T: prost::Message + Default + 'static,
    {
        self.unary_within(MEMBERS, doing, path, message).await
    }

    /// The same with another deadline.
    pub(super) async fn unary_within<M, T>(
        &self,
        deadline: Duration,
        doing: &str,
        path: &'static str,
        message: M,
    ) -> PortResult<T>
    where
        M: prost::Message + 'static,
        T: prost::Message + Default + 'static,
    {
        let (what, channel) = self.channel(doing)?;
        let asked = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| tonic::Status::from_error(Box::new(error)))?;
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<M, T>::default();
            grpc.unary(Request::new(message), path, codec).await
        };
        match timeout(deadline, asked).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.failed(status_error(&what, Kind::Read, &status))),
            Err(_) => {
                self.connector.reset();
                self.connector.try_another();
                Err(no_answer(&what, Kind::Read, deadline))
            }
        }
    }

    /// One action of etcd's downgrade API, for this minor.
    pub(super) async fn ask_downgrade(
        &self,
        verb: &str,
        action: i32,
        to: Option<EtcdVersion>,
    ) -> PortResult<()> {
        let minor = to.map(|to| format!("{}.{}", to.major, to.minor));
        let doing = match &minor {
            Some(minor) => format!("{verb} the downgrade to {minor}"),
            None => format!("{verb} the downgrade"),
        };
        let version = minor.map(|minor| format!("{minor}.0")).unwrap_or_default();
        let path = "/etcdserverpb.Maintenance/Downgrade";
        let _: proto::DowngradeResponse = self
            .unary(&doing, path, proto::DowngradeRequest { action, version })
            .await?;
        Ok(())
    }

    /// Raises or disarms an alarm of this member ID.
    pub(super) async fn alarm(
        &self,
        verb: &str,
        action: AlarmAction,
        member: MemberId,
        alarm: AlarmKind,
    ) -> PortResult<()> {
        let kind = match alarm {
            AlarmKind::NoSpace => AlarmType::Nospace,
            AlarmKind::Corrupt => AlarmType::Corrupt,
        };
        let doing = format!("{verb} the alarm {alarm} of member {member}");
        self.call(&doing, Kind::Change, MEMBERS, |client| async move {
            let mut of = AlarmOptions::new();
            of.with_member(member.0);
            let mut maintenance = client.maintenance_client();
            maintenance.alarm(action, kind, Some(of)).await.map(drop)
        })
        .await
    }

    pub(super) async fn list(&self, linearizable: bool) -> PortResult<proto::MemberListResponse> {
        let message = proto::MemberListRequest { linearizable };
        self.unary("list members", "/etcdserverpb.Cluster/MemberList", message)
            .await
    }

    /// The state of authentication. etcd asks its members through raft, and those of etcd 3.4 do not know the request:
    /// 3.4.23 panics on it. So it is not asked for while there may be one.
    pub(super) async fn auth_status(&self) -> PortResult<proto::AuthStatusResponse> {
        let doing = "read the state of authentication";
        if self.has_3_4().await? {
            let what = self.what(doing);
            return Err(PortError::Permanent(format!(
                "{what}: a member may run etcd 3.4, which cannot report it"
            )));
        }
        let path = "/etcdserverpb.Auth/AuthStatus";
        self.unary(doing, path, proto::AuthStatusRequest {}).await
    }

    /// True if etcd has users or roles, or had some. etcd 3.4 does not report that it had some.
    ///
    /// # Errors
    /// Of etcd, also if it wants a password.
    pub async fn has_had_users(&self) -> PortResult<bool> {
        if !self.has_3_4().await? {
            return Ok(self.auth_status().await?.auth_revision > NO_USERS_YET);
        }
        for path in ["/etcdserverpb.Auth/UserList", "/etcdserverpb.Auth/RoleList"] {
            let request = proto::AuthListRequest {};
            let listed: proto::AuthListResponse = self.unary("list users and roles", path, request).await?;
            if !listed.names.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if a member of the cluster may run etcd 3.4.
    pub(super) async fn has_3_4(&self) -> PortResult<bool> {
        let version = self.version().await?;
        if version.starts_with("3.4.") {
            return Ok(true);
        }
        if !version.starts_with("3.5.") {
            return Ok(false);
        }
        let tls = self.connector.tls().map_err(PortError::Retryable)?;
        let cluster = probe::cluster_version(&self.connector.url(), tls).await?;
        Ok(cluster.is_none_or(|cluster| cluster.series() <= (3, 4)))
    }

    /// True if this etcd itself is 3.4.
    pub(super) async fn is_3_4(&self) -> PortResult<bool> {
        Ok(self.version().await?.starts_with("3.4."))
    }

    /// The version in its last answer. If there was none yet, it is asked.
    async fn version(&self) -> PortResult<String> {
        let known = || {
            self.version
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        if known().is_empty() {
            self.status().await?;
        }
        Ok(known())
    }
}

/// What the agent presents to etcd, and the authority of etcd's own certificate.
pub(super) fn presented(own: Option<&TlsFiles>, etcd: &TlsFiles) -> TlsFiles {
    let own = own.unwrap_or(etcd);
    TlsFiles {
        cert_file: own.cert_file.clone(),
        key_file: own.key_file.clone(),
        ca_file: etcd.ca_file.clone(),
    }
}
