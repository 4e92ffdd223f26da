//! TLS, the peer API, the metrics port and the FleetLock port. Checks that no two of them share a port.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Builder;
use crate::config::fields::{
    API_INSECURE, API_LISTEN, API_TLS, CLUSTER_NODES, ETCD_CLIENT_PORT, ETCD_CLIENT_TLS, ETCD_PEER_PORT,
    ETCD_PEER_TLS, ETCD_PLAIN_CLIENT_PORT, METRICS_LISTEN, METRICS_TLS, REBOOT_LOCK_GROUPS,
    REBOOT_LOCK_LISTEN, TlsFields,
};
use crate::config::settings::ApiSettings;
use crate::model::{Spec, TlsFiles};

/// The port of the peer API.
const API_PORT: u16 = 2378;
/// The port of a single node's metrics.
const METRICS_PORT: u16 = 2381;

impl Builder<'_> {
    pub(super) fn tls(&mut self, fields: &TlsFields) -> Option<TlsFiles> {
        self.value(fields.table)?;
        let parts = [&fields.cert_file, &fields.key_file, &fields.ca_file];
        let found = parts.map(|field| self.optional(field));
        if let [Some(cert_file), Some(key_file), Some(ca_file)] = found {
            return Some(TlsFiles {
                cert_file,
                key_file,
                ca_file,
            });
        }
        for (field, value) in parts.into_iter().zip(&found) {
            if value.is_none() && !self.is_inconclusive(field.key) {
                self.wrong(
                    field.key,
                    "is missing: cert_file, key_file and ca_file belong together".to_owned(),
                );
            }
        }
        None
    }

    pub(super) fn api(&mut self, spec: &Spec) -> ApiSettings {
        let peers = spec.nodes.len() > 1;
        let tls = self.tls(&API_TLS);
        let insecure = self.read(&API_INSECURE);
        let listen = self.optional(&API_LISTEN);
        let port = listen.map_or(API_PORT, |address| address.port());
        let listen = listen.or_else(|| peers.then(|| ([0u16; 8], API_PORT).into()));
        if !insecure && !self.is_inconclusive(API_INSECURE.key) {
            let parts = [
                (API_TLS.table, tls.is_some(), listen.is_some(), "the peer API"),
                (
                    ETCD_CLIENT_TLS.table,
                    spec.etcd.client_tls.is_some(),
                    !spec.loopback_only(false),
                    "etcd's client port",
                ),
                (
                    ETCD_PEER_TLS.table,
                    spec.etcd.peer_tls.is_some(),
                    !spec.loopback_only(false),
                    "etcd's peer port",
                ),
            ];
            for (table, has_tls, reachable, what) in parts {
                if has_tls
                    || !reachable
                    || self.is_inconclusive(table)
                    || self.is_inconclusive(CLUSTER_NODES.key)
                {
                    continue;
                }
                // An incomplete table was reported already.
                if self.value(table).is_none() {
                    self.wrong(
                        table,
                        format!(
                            "{what} can be reached from other hosts and has no TLS: set cert_file, key_file and \
                             ca_file, or spell out api.insecure = true"
                        ),
                    );
                }
            }
        }
        if spec.etcd.plain_client_port.is_some() && !insecure && !self.is_inconclusive(API_INSECURE.key) {
            self.wrong(
                ETCD_PLAIN_CLIENT_PORT.key,
                "serves clients in plain HTTP: remove it once they speak TLS, or spell out api.insecure = true \
                 ([api.tls] stays in force)"
                    .to_owned(),
            );
        }
        let metrics = self.metrics(spec, listen);
        let metrics_tls = self.read(&METRICS_TLS);
        if metrics_tls && tls.is_none() && !self.is_inconclusive(API_TLS.table) {
            self.wrong(
                METRICS_TLS.key,
                "true needs [api.tls]: set its cert_file, key_file and ca_file, which serve the metrics too, or leave \
                 metrics.tls out"
                    .to_owned(),
            );
        }
        ApiSettings {
            listen,
            port,
            fleet_lock: self.fleet_lock(spec, listen, metrics),
            lock_groups: self.read(&REBOOT_LOCK_GROUPS),
            metrics,
            metrics_tls,
            insecure: insecure && tls.is_none(),
            tls,
        }
    }

    /// The address for metrics and the status page. A single node has no other port, so by default it serves
    /// metrics on its loopback interface, unless the port is taken.
    pub(super) fn metrics(&mut self, spec: &Spec, api: Option<SocketAddr>) -> Option<SocketAddr> {
        let taken = |port: u16| is_taken(port, spec, api);
        let Some(listen) = self.optional(&METRICS_LISTEN) else {
            let default = SocketAddr::from(([127, 0, 0, 1], METRICS_PORT));
            let wanted =
                spec.nodes.len() == 1 && !self.is_inconclusive(METRICS_LISTEN.key) && !taken(METRICS_PORT);
            return wanted.then_some(default);
        };
        if taken(listen.port()) {
            let text = format!("port {} is already used by etcd or api.listen", listen.port());
            self.wrong(METRICS_LISTEN.key, text);
        }
        Some(listen)
    }

    /// The address for the FleetLock protocol. The protocol has no authentication, so only processes of this
    /// host may reach it.
    fn fleet_lock(
        &mut self,
        spec: &Spec,
        api: Option<SocketAddr>,
        metrics: Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        let listen = self.optional(&REBOOT_LOCK_LISTEN)?;
        if !listen.ip().is_loopback() {
            let text = format!(
                "{listen} can be reached from other hosts, and FleetLock has no authentication: expected a loopback \
                 address, for example 127.0.0.1:{}",
                listen.port()
            );
            self.wrong(REBOOT_LOCK_LISTEN.key, text);
        }
        if is_taken(listen.port(), spec, api) || metrics.is_some_and(|other| other.port() == listen.port()) {
            let text = format!(
                "port {} is already used by etcd, api.listen or metrics.listen",
                listen.port()
            );
            self.wrong(REBOOT_LOCK_LISTEN.key, text);
        }
        Some(listen)
    }

    pub(super) fn ports(&mut self, spec: &Spec, api: &ApiSettings) {
        let mut used = BTreeMap::from([(spec.etcd.client_port, ETCD_CLIENT_PORT.key)]);
        let others = [
            (spec.etcd.plain_client_port, ETCD_PLAIN_CLIENT_PORT.key),
            (Some(spec.etcd.peer_port), ETCD_PEER_PORT.key),
            (api.listen.map(|address| address.port()), API_LISTEN.key),
        ];
        for (port, field) in others {
            if let Some(port) = port
                && let Some(other) = used.insert(port, field)
            {
                self.wrong(field, format!("port {port} is already used by {other}"));
            }
        }
    }
}

/// True if etcd or the peer API uses this port.
fn is_taken(port: u16, spec: &Spec, api: Option<SocketAddr>) -> bool {
    let etcd = [spec.etcd.client_port, spec.etcd.peer_port].contains(&port)
        || spec.etcd.plain_client_port == Some(port);
    let own = api.is_some_and(|api| api.port() == port);
    let more = spec.etcd.settings.get("listen-metrics-urls");
    let more = more.is_some_and(|urls| {
        urls.split(',')
            .any(|url| url.trim_end_matches('/').ends_with(&format!(":{port}")))
    });
    etcd || own || more
}
