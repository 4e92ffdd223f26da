//! The merged tree → settings: defaults, and what must hold between fields.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::field_types;
use super::location::SourceLocation;
use super::problem::Problem;
use super::schema::Checked;
use super::settings::{
    ApiSettings, ArchiveSettings, Encryption, S3Options, Settings, Sse, StoreSettings, StoreUrl,
};
use super::tree::{Kind, Value};
use crate::model::{
    BackupFormat, BackupSpec, Calendar, ClusterName, EtcdSpec, NodeName, Retention, SizeSource, Spec,
    TlsFiles, unwise_size,
};

/// Where etcd's data is, as Debian's unit has it.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/etcd/default";
/// Where the peers' agents listen.
const API_PORT: u16 = 2378;
/// Where a single node's metrics can be read.
const METRICS_PORT: u16 = 2381;

/// Builds the settings, or says everything that does not fit together.
pub(super) fn build(checked: &Checked, host: &str) -> Result<Settings, Vec<Problem>> {
    let mut builder = Builder {
        checked,
        problems: Vec::new(),
    };
    let settings = builder.settings(host);
    match settings {
        Some(settings) if builder.problems.is_empty() => Ok(settings),
        _ => Err(builder.problems),
    }
}

struct Builder<'a> {
    checked: &'a Checked,
    problems: Vec<Problem>,
}

impl Builder<'_> {
    fn settings(&mut self, host: &str) -> Option<Settings> {
        let node = self.node(host)?;
        let cluster = self
            .read("cluster.name", field_types::cluster_name)
            .or_else(|| ClusterName::new("default").ok())?;
        let nodes = self.nodes(&node);
        let size = self.size(nodes.len());
        let etcd = EtcdSpec {
            data_dir: self
                .read("etcd.data_dir", field_types::path)
                .unwrap_or_else(|| DEFAULT_DATA_DIR.into()),
            client_port: self.read("etcd.client_port", field_types::port).unwrap_or(2379),
            peer_port: self.read("etcd.peer_port", field_types::port).unwrap_or(2380),
            client_tls: self.tls("etcd.client_tls"),
            peer_tls: self.tls("etcd.peer_tls"),
            binary: self.read("etcd.binary", field_types::binary),
            settings: self.etcd_settings(),
        };
        let store = self.store("store");
        let store_copy = self.store_copy(store.as_ref());
        self.apart("store.url", store.as_ref(), &etcd.data_dir);
        self.apart("store.copy.url", store_copy.as_ref(), &etcd.data_dir);
        let interval = self
            .read("backup.interval", field_types::duration)
            .unwrap_or(Duration::from_mins(15));
        let spec = Spec {
            cluster,
            node,
            size,
            size_source: self.size_source(store.as_ref()),
            nodes,
            etcd,
            backup_interval: store.is_some().then_some(interval),
            backup: self.backup(),
            store_shared: store.as_ref().is_some_and(|store| store.shared),
            shared_store: store.as_ref().map(StoreSettings::shared_url).unwrap_or_default(),
            grace: self
                .read("cluster.grace", field_types::duration)
                .unwrap_or(Duration::from_mins(5)),
            join: self.read("cluster.join", field_types::join).unwrap_or_default(),
        };
        let api = self.api(&spec);
        self.ports(&spec, &api);
        Some(Settings {
            spec,
            api,
            store,
            store_copy,
            encryption: self.encryption(),
            archive: ArchiveSettings {
                keep: self.read("archive.keep", field_types::keep).unwrap_or(3),
                min_age: self
                    .read("archive.min_age", field_types::duration)
                    .unwrap_or(Duration::from_hours(7 * 24)),
                max_age: self
                    .read("archive.max_age", field_types::duration)
                    .unwrap_or(Duration::from_hours(30 * 24)),
            },
        })
    }

    fn node(&mut self, host: &str) -> Option<NodeName> {
        if let Some(name) = self.read("node.name", field_types::node_name) {
            return Some(name);
        }
        match NodeName::new(host) {
            Ok(name) => Some(name),
            Err(error) => {
                self.wrong(
                    "node.name",
                    format!("the host name cannot serve: {error}; set node.name"),
                );
                None
            }
        }
    }

    fn nodes(&mut self, node: &NodeName) -> BTreeMap<NodeName, String> {
        let mut nodes = BTreeMap::new();
        let mut seen: BTreeMap<String, NodeName> = BTreeMap::new();
        let mut names: BTreeMap<String, NodeName> = BTreeMap::new();
        let entries = match self.value("cluster.nodes").map(|value| &value.kind) {
            Some(Kind::Table(table)) => table.clone(),
            _ => BTreeMap::new(),
        };
        for (key, value) in &entries {
            let (Ok(name), Ok(address)) = (NodeName::new(key.as_str()), field_types::address(value)) else {
                continue;
            };
            if let Some(other) = names.insert(key.to_lowercase(), name.clone()) {
                let text =
                    format!("differs from {other} by upper and lower case alone: give it another name");
                self.problems.push(Problem::at(
                    value.at.as_ref(),
                    format!("cluster.nodes.{name}"),
                    text,
                ));
            }
            if let Some(other) = seen.insert(field_types::host(&address), name.clone()) {
                let text = format!("has the address {address:?} of {other}: each node needs its own");
                self.problems.push(Problem::at(
                    value.at.as_ref(),
                    format!("cluster.nodes.{name}"),
                    text,
                ));
            }
            nodes.insert(name, address);
        }
        if self.doubtful("cluster.nodes") || self.doubtful("node.name") {
            nodes.entry(node.clone()).or_insert_with(|| node.to_string());
        } else if nodes.is_empty() {
            nodes.insert(node.clone(), node.to_string());
        } else if !nodes.contains_key(node) {
            let names: Vec<&str> = nodes.keys().map(NodeName::as_str).collect();
            let text = format!(
                "this node is {node:?}, which is not among them ({}): add it, or set node.name",
                names.join(", "),
                node = node.as_str()
            );
            self.wrong("cluster.nodes", text);
        }
        nodes
    }

    fn size(&mut self, nodes: usize) -> usize {
        let default = if nodes >= 3 { 3 } else { 1 };
        let Some(size) = self.read("cluster.size", field_types::size) else {
            return default;
        };
        let force = self.read("cluster.force", field_types::flag).unwrap_or(false);
        if let Some(why) = unwise_size(size)
            && !force
            && !self.doubtful("cluster.force")
        {
            self.wrong(
                "cluster.size",
                format!("found {size}, {why}; cluster.force = true overrides"),
            );
        }
        if size > nodes && !self.doubtful("cluster.nodes") {
            self.wrong(
                "cluster.size",
                format!("found {size}, but cluster.nodes has {nodes}: name at least {size} nodes"),
            );
        }
        size
    }

    /// A configuration file that holds the size wins; else it is kept where all nodes see it, if there is such a place.
    fn size_source(&self, store: Option<&StoreSettings>) -> SizeSource {
        match self.value("cluster.size").map(|value| value.at.as_ref()) {
            Some(at) => SizeSource::Config {
                file: at.map(|at| at.file.to_path_buf()).unwrap_or_default(),
                line: at.map_or(0, |at| at.line),
            },
            None if store.is_some_and(|store| store.shared) => SizeSource::Store { said: None },
            None => SizeSource::Default,
        }
    }

    fn tls(&mut self, table: &str) -> Option<TlsFiles> {
        let part = |name: &str| format!("{table}.{name}");
        let names = ["cert_file", "key_file", "ca_file"];
        self.value(table)?;
        let found: Vec<Option<PathBuf>> = names
            .iter()
            .map(|name| self.read(&part(name), field_types::path))
            .collect();
        if let [Some(cert_file), Some(key_file), Some(ca_file)] = found.as_slice() {
            return Some(TlsFiles {
                cert_file: cert_file.clone(),
                key_file: key_file.clone(),
                ca_file: ca_file.clone(),
            });
        }
        for (name, value) in names.iter().zip(&found) {
            if value.is_none() && !self.doubtful(&part(name)) {
                self.wrong(
                    &part(name),
                    "is missing: cert_file, key_file and ca_file belong together".to_owned(),
                );
            }
        }
        None
    }

    fn etcd_settings(&self) -> BTreeMap<String, String> {
        match self.value("etcd.settings").map(|value| &value.kind) {
            Some(Kind::Table(table)) => table
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), field_types::setting(value).ok()?)))
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    fn api(&mut self, spec: &Spec) -> ApiSettings {
        let peers = spec.nodes.len() > 1;
        let tls = self.tls("api.tls");
        let insecure = self.read("api.insecure", field_types::flag).unwrap_or(false);
        let listen = self.read("api.listen", field_types::listen);
        let port = listen.map_or(API_PORT, |address| address.port());
        let listen = listen.or_else(|| peers.then(|| ([0u16; 8], API_PORT).into()));
        if !insecure && !self.doubtful("api.insecure") {
            let parts = [
                ("api.tls", tls.is_some(), listen.is_some(), "the peer API"),
                (
                    "etcd.client_tls",
                    spec.etcd.client_tls.is_some(),
                    !spec.loopback_only(false),
                    "etcd's client port",
                ),
                (
                    "etcd.peer_tls",
                    spec.etcd.peer_tls.is_some(),
                    !spec.loopback_only(false),
                    "etcd's peer port",
                ),
            ];
            for (table, has_tls, reachable, what) in parts {
                if has_tls || !reachable || self.doubtful(table) || self.doubtful("cluster.nodes") {
                    continue;
                }
                // A table that is there but not whole was reported already.
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
        ApiSettings {
            listen,
            port,
            metrics: self.metrics(spec, listen),
            insecure: insecure && tls.is_none(),
            tls,
        }
    }

    /// Where metrics can be read over plain HTTP: on the loopback interface of a single node, which has no other port, unless
    /// the port is taken.
    fn metrics(&mut self, spec: &Spec, api: Option<SocketAddr>) -> Option<SocketAddr> {
        let taken = |port: u16| {
            let etcd = [spec.etcd.client_port, spec.etcd.peer_port].contains(&port);
            let own = api.is_some_and(|api| api.port() == port);
            let more = spec.etcd.settings.get("listen-metrics-urls");
            let more = more.is_some_and(|urls| {
                urls.split(',')
                    .any(|url| url.trim_end_matches('/').ends_with(&format!(":{port}")))
            });
            etcd || own || more
        };
        let Some(listen) = self.read("metrics.listen", field_types::listen) else {
            let default = SocketAddr::from(([127, 0, 0, 1], METRICS_PORT));
            let wanted = spec.nodes.len() == 1 && !self.doubtful("metrics.listen") && !taken(METRICS_PORT);
            return wanted.then_some(default);
        };
        if taken(listen.port()) {
            let text = format!("port {} is etcd's, or that of api.listen, already", listen.port());
            self.wrong("metrics.listen", text);
        }
        Some(listen)
    }

    fn ports(&mut self, spec: &Spec, api: &ApiSettings) {
        let mut used = BTreeMap::from([(spec.etcd.client_port, "etcd.client_port")]);
        let others = [
            (Some(spec.etcd.peer_port), "etcd.peer_port"),
            (api.listen.map(|address| address.port()), "api.listen"),
        ];
        for (port, field) in others {
            if let Some(port) = port
                && let Some(other) = used.insert(port, field)
            {
                self.wrong(field, format!("port {port} is that of {other} already"));
            }
        }
    }

    fn store(&mut self, prefix: &str) -> Option<StoreSettings> {
        let part = |name: &str| format!("{prefix}.{name}");
        let table = self.value(prefix)?;
        let Some(url) = self.read(&part("url"), field_types::store_url) else {
            if !self.doubtful(prefix) && matches!(&table.kind, Kind::Table(keys) if !keys.is_empty()) {
                self.wrong(
                    &part("url"),
                    "is missing: s3://BUCKET/PREFIX or file:///ABSOLUTE/PATH".to_owned(),
                );
            }
            return None;
        };
        let s3 = matches!(url, StoreUrl::S3 { .. });
        let s3_only = [
            "endpoint",
            "region",
            "path_style",
            "ca_file",
            "credentials_file",
            "proxy",
            "sse",
            "sse_kms_key",
            "sse_key_file",
            "checksums",
            "bandwidth",
        ];
        for field in s3_only {
            let field = part(field);
            if !s3 && self.value(&field).is_some() {
                self.wrong(
                    &field,
                    format!("is for s3:// only, and {prefix}.url is a directory: leave it out"),
                );
            }
        }
        let endpoint = self.read(&part("endpoint"), field_types::endpoint);
        let region = self
            .read(&part("region"), field_types::word)
            .or_else(|| endpoint.is_some().then(|| "us-east-1".to_owned()));
        Some(StoreSettings {
            url,
            endpoint,
            region,
            path_style: self.read(&part("path_style"), field_types::flag).unwrap_or(false),
            ca_file: self.read(&part("ca_file"), field_types::path),
            credentials_file: self.read(&part("credentials_file"), field_types::path),
            shared: self.read(&part("shared"), field_types::flag).unwrap_or(s3),
            options: S3Options {
                proxy: self.read(&part("proxy"), field_types::proxy).unwrap_or_default(),
                sse: self.sse(prefix),
                checksums: self.read(&part("checksums"), field_types::flag).unwrap_or(false),
                bandwidth: self.read(&part("bandwidth"), field_types::bytes),
            },
        })
    }

    fn store_copy(&mut self, first: Option<&StoreSettings>) -> Option<StoreSettings> {
        let copy = self.store("store.copy")?;
        if first.is_some_and(|first| first.url == copy.url && first.endpoint == copy.endpoint) {
            self.wrong(
                "store.copy.url",
                "is the store itself: name another one".to_owned(),
            );
        }
        Some(copy)
    }

    /// What replaces etcd's data must not take the backups along, nor list etcd's files as its own.
    fn apart(&mut self, field: &str, store: Option<&StoreSettings>, data_dir: &Path) {
        let Some(StoreUrl::Directory(dir)) = store.map(|store| &store.url) else {
            return;
        };
        let (store, data) = (dir.display(), data_dir.display());
        let text = if dir.starts_with(data_dir) {
            format!(
                "{store} is inside etcd.data_dir ({data}), which is replaced as a whole: name another directory"
            )
        } else if data_dir.starts_with(dir) {
            format!("etcd.data_dir ({data}) is inside {store}: name a directory of the store's own")
        } else {
            return;
        };
        self.wrong(field, text);
    }

    fn encryption(&mut self) -> Encryption {
        let encryption = Encryption {
            recipients: self
                .read("backup.encrypt_to", field_types::recipients)
                .unwrap_or_default(),
            identity_file: self.read("restore.identity_file", field_types::path),
            accept_plaintext_before: self.read("restore.accept_plaintext_before", field_types::moment),
        };
        let verifies = self
            .read("backup.verify_interval", field_types::interval)
            .flatten();
        let blind = encryption.identity_file.is_none() && !self.doubtful("restore.identity_file");
        if !encryption.recipients.is_empty() && blind && verifies.is_some() {
            let text = "needs restore.identity_file, as backup.encrypt_to is set: what cannot be opened cannot be verified";
            self.wrong("backup.verify_interval", text.to_owned());
        }
        let format = self.read("backup.format", field_types::backup_format);
        if !encryption.recipients.is_empty() && format == Some(BackupFormat::EtcdManager) {
            let text = "cannot be etcd-manager's while backup.encrypt_to is set: etcd-manager reads no encrypted backup";
            self.wrong("backup.format", text.to_owned());
        }
        encryption
    }

    fn sse(&mut self, prefix: &str) -> Sse {
        let part = |name: &str| format!("{prefix}.{name}");
        let mode = self.read(&part("sse"), field_types::sse);
        let key = self.read(&part("sse_kms_key"), field_types::word);
        let key_file = self.read(&part("sse_key_file"), field_types::path);
        let belongs = [
            ("sse_kms_key", key.is_some(), "aws:kms"),
            ("sse_key_file", key_file.is_some(), "customer"),
        ];
        for (field, set, with) in belongs {
            if set && mode != Some(with) && !self.doubtful(&part("sse")) {
                self.wrong(&part(field), format!("belongs to {prefix}.sse = \"{with}\""));
            }
        }
        match (mode, key_file) {
            (Some("AES256"), _) => Sse::S3,
            (Some("aws:kms"), _) => Sse::Kms { key },
            (Some("customer"), Some(key_file)) => Sse::Customer { key_file },
            (Some("customer"), None) => {
                if !self.doubtful(&part("sse_key_file")) {
                    let text =
                        format!("needs {prefix}.sse_key_file: a file with 32 random bytes or their base64");
                    self.wrong(&part("sse"), text);
                }
                Sse::Default
            }
            _ => Sse::Default,
        }
    }

    fn calendar(&mut self) -> Option<Calendar> {
        let calendar = self.read("backup.on_calendar", field_types::calendar)?;
        if self.value("backup.interval").is_some() {
            let text = "cannot be set beside backup.interval: keep one of them";
            self.wrong("backup.on_calendar", text.to_owned());
        }
        Some(calendar)
    }

    fn backup(&mut self) -> BackupSpec {
        let default = Retention::default();
        let on_calendar = self.calendar();
        let count = |name: &str, default| {
            self.read(&format!("backup.retention.{name}"), field_types::count)
                .unwrap_or(default)
        };
        // A backup that nobody ever restored is a hope; one verification a day costs one download. Where this node
        // can only seal, each would fail, and say nothing of the backups.
        let sealed =
            self.value("backup.encrypt_to").is_some() && self.value("restore.identity_file").is_none();
        let increments = self.read("backup.increments", field_types::flag).unwrap_or(true);
        let interval = self.read("backup.increment_interval", field_types::duration);
        BackupSpec {
            on_calendar,
            verify_interval: self
                .read("backup.verify_interval", field_types::interval)
                .unwrap_or((!sealed).then(|| Duration::from_hours(24))),
            increment_interval: increments.then(|| interval.unwrap_or(Duration::from_secs(1))),
            max_increments: self
                .read("backup.max_increments", field_types::increments)
                .unwrap_or(BackupSpec::default().max_increments),
            format: self
                .read("backup.format", field_types::backup_format)
                .unwrap_or_default(),
            retention: Retention {
                enabled: self
                    .read("backup.retention.enabled", field_types::flag)
                    .unwrap_or(default.enabled),
                recent: self
                    .read("backup.retention.recent", field_types::duration)
                    .unwrap_or(default.recent),
                hourly: count("hourly", default.hourly),
                daily: count("daily", default.daily),
                weekly: count("weekly", default.weekly),
                yearly: count("yearly", default.yearly),
                count: count("count", default.count),
            },
        }
    }

    fn value(&self, field: &str) -> Option<&Value> {
        self.checked.merged.get(&field.split('.').collect::<Vec<_>>())
    }

    fn read<T>(&self, field: &str, form: impl Fn(&Value) -> Result<T, String>) -> Option<T> {
        form(self.value(field)?).ok()
    }

    /// True when something at or below this field was wrong, so that nothing follows from its absence.
    fn doubtful(&self, field: &str) -> bool {
        self.checked.torn
            || self.checked.failed.iter().any(|failed| {
                let below = failed.strip_prefix(field);
                let above = field.strip_prefix(failed.as_str());
                [below, above]
                    .into_iter()
                    .flatten()
                    .any(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    }

    /// Reports a field, at the place of the field or of the innermost table around it that is written down.
    fn wrong(&mut self, field: &str, text: String) {
        let mut path: Vec<&str> = field.split('.').collect();
        let mut place: Option<&SourceLocation> = None;
        while place.is_none() && !path.is_empty() {
            place = self.checked.merged.get(&path).and_then(|value| value.at.as_ref());
            path.pop();
        }
        // What is missing altogether is missing because of the nodes that were named.
        let nodes = || self.checked.merged.get(&["cluster", "nodes"])?.at.as_ref();
        let place = place.or_else(nodes);
        let problem = Problem::at(place, field, text);
        self.problems.push(problem);
    }
}
