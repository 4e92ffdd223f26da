//! The stores.

use super::Builder;
use crate::config::fields::{STORE_COPY, StoreFields};
use crate::config::settings::{S3Options, Sse, StoreSettings, StoreUrl};
use crate::config::tree::Kind;
use crate::model::EtcdSpec;

impl Builder<'_> {
    pub(super) fn store(&mut self, fields: &StoreFields) -> Option<StoreSettings> {
        let table = self.value(fields.table)?;
        let Some(url) = self.optional(&fields.url) else {
            if !self.is_inconclusive(fields.table)
                && matches!(&table.kind, Kind::Table(keys) if !keys.is_empty())
            {
                self.wrong(
                    fields.url.key,
                    "is missing: s3://BUCKET/PREFIX or file:///ABSOLUTE/PATH".to_owned(),
                );
            }
            return None;
        };
        let s3 = matches!(url, StoreUrl::S3 { .. });
        for key in fields.s3_only() {
            if !s3 && self.value(key).is_some() {
                self.wrong(
                    key,
                    format!(
                        "is for s3:// only, and {} is a directory: leave it out",
                        fields.url.key
                    ),
                );
            }
        }
        let endpoint = self.optional(&fields.endpoint);
        let region = self
            .optional(&fields.region)
            .or_else(|| endpoint.is_some().then(|| "us-east-1".to_owned()));
        let shared = fields.shared.as_ref().and_then(|field| self.optional(field));
        Some(StoreSettings {
            url,
            endpoint,
            region,
            path_style: self.read(&fields.path_style),
            ca_file: self.optional(&fields.ca_file),
            credentials_file: self.optional(&fields.credentials_file),
            shared: shared.unwrap_or(s3),
            options: S3Options {
                proxy: self.optional(&fields.proxy).unwrap_or_default(),
                sse: self.sse(fields),
                checksums: self.read(&fields.checksums),
                bandwidth: self.optional(&fields.bandwidth),
            },
        })
    }

    pub(super) fn store_copy(&mut self, first: Option<&StoreSettings>) -> Option<StoreSettings> {
        let copy = self.store(&STORE_COPY)?;
        if first.is_some_and(|first| first.url == copy.url && first.endpoint == copy.endpoint) {
            self.wrong(
                STORE_COPY.url.key,
                "is the store itself: name another one".to_owned(),
            );
        }
        Some(copy)
    }

    /// A directory store must neither contain etcd's data or its log nor be inside of them: both are replaced
    /// as a whole, and the store lists the files below it.
    pub(super) fn apart(&mut self, field: &str, store: Option<&StoreSettings>, etcd: &EtcdSpec) {
        let Some(StoreUrl::Directory(dir)) = store.map(|store| &store.url) else {
            return;
        };
        let log = etcd.wal_dir.as_ref().map(|dir| ("etcd.wal_dir", dir));
        for (other, at) in [("etcd.data_dir", &etcd.data_dir)].into_iter().chain(log) {
            let (store, data) = (dir.display(), at.display());
            let text = if dir.starts_with(at) {
                format!(
                    "{store} is inside {other} ({data}), which is replaced as a whole: name another directory"
                )
            } else if at.starts_with(dir) {
                format!("{other} ({data}) is inside {store}: name a directory of the store's own")
            } else {
                continue;
            };
            self.wrong(field, text);
        }
    }

    fn sse(&mut self, fields: &StoreFields) -> Sse {
        let mode = self.optional(&fields.sse);
        let key = self.optional(&fields.sse_kms_key);
        let key_file = self.optional(&fields.sse_key_file);
        let sse = fields.sse.key;
        let belongs = [
            (fields.sse_kms_key.key, key.is_some(), "aws:kms"),
            (fields.sse_key_file.key, key_file.is_some(), "customer"),
        ];
        for (field, set, with) in belongs {
            if set && mode != Some(with) && !self.is_inconclusive(sse) {
                self.wrong(field, format!("belongs to {sse} = \"{with}\""));
            }
        }
        match (mode, key_file) {
            (Some("AES256"), _) => Sse::S3,
            (Some("aws:kms"), _) => Sse::Kms { key },
            (Some("customer"), Some(key_file)) => Sse::Customer { key_file },
            (Some("customer"), None) => {
                let key_file = fields.sse_key_file.key;
                if !self.is_inconclusive(key_file) {
                    let text = format!("needs {key_file}: a file with 32 random bytes or their base64");
                    self.wrong(sse, text);
                }
                Sse::Default
            }
            _ => Sse::Default,
        }
    }
}
