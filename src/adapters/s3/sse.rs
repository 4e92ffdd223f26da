//! Server-side encryption: the headers that each call needs.

use aws_sdk_s3::types::ServerSideEncryption;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use crate::config::{Sse, StoreSettings};

const KEY_BYTES: usize = 32;
/// The largest key file in bytes. A key is raw or in base64 with a newline; a larger file is not a key.
const MOST_BYTES: usize = 128;

/// The customer's key in the form of the headers. Its `Debug` output is redacted.
#[derive(Clone)]
pub(super) struct CustomerKey {
    key: String,
    md5: String,
}

impl std::fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomerKey")
    }
}

/// The encryption to request from the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption {
    mode: Option<ServerSideEncryption>,
    kms_key: Option<String>,
    customer: Option<CustomerKey>,
}

impl Encryption {
    /// Reads the customer's key, if one is configured. The key's text appears in no error.
    pub(super) fn of(settings: &StoreSettings) -> Result<Self, String> {
        Ok(match &settings.options.sse {
            Sse::Default => Self::default(),
            Sse::S3 => Self {
                mode: Some(ServerSideEncryption::Aes256),
                ..Self::default()
            },
            Sse::Kms { key } => Self {
                mode: Some(ServerSideEncryption::AwsKms),
                kms_key: key.clone(),
                ..Self::default()
            },
            Sse::Customer { key_file } => {
                let text = std::fs::read(key_file).map_err(|error| {
                    format!("cannot read store.sse_key_file {}: {error}", key_file.display())
                })?;
                let key = key_of(&text).ok_or_else(|| {
                    format!(
                        "store.sse_key_file {} has no key: it must hold 32 bytes, or their base64 \
                         (`head -c 32 /dev/urandom | base64`)",
                        key_file.display()
                    )
                })?;
                Self {
                    customer: Some(CustomerKey {
                        md5: STANDARD.encode(Md5::digest(&key)),
                        key: STANDARD.encode(&key),
                    }),
                    ..Self::default()
                }
            }
        })
    }

    pub(super) fn mode(&self) -> Option<ServerSideEncryption> {
        self.mode.clone()
    }
    pub(super) fn kms_key(&self) -> Option<String> {
        self.kms_key.clone()
    }
    pub(super) fn algorithm(&self) -> Option<String> {
        self.customer.as_ref().map(|_| "AES256".to_owned())
    }
    pub(super) fn key(&self) -> Option<String> {
        self.customer.as_ref().map(|customer| customer.key.clone())
    }
    pub(super) fn key_md5(&self) -> Option<String> {
        self.customer.as_ref().map(|customer| customer.md5.clone())
    }
}

fn key_of(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() == KEY_BYTES {
        return Some(text.to_vec());
    }
    let text = std::str::from_utf8(text.get(..text.len().min(MOST_BYTES))?).ok()?;
    let key = STANDARD.decode(text.trim()).ok()?;
    (key.len() == KEY_BYTES).then_some(key)
}

/// Adds the customer's key to a call that reads or writes an object's bytes.
macro_rules! with_key {
    ($request:expr, $encryption:expr) => {
        $request
            .set_sse_customer_algorithm($encryption.algorithm())
            .set_sse_customer_key($encryption.key())
            .set_sse_customer_key_md5($encryption.key_md5())
    };
}

/// Adds all encryption headers to a call that creates an object.
macro_rules! encrypted {
    ($request:expr, $encryption:expr) => {
        $crate::adapters::s3::sse::with_key!($request, $encryption)
            .set_server_side_encryption($encryption.mode())
            .set_ssekms_key_id($encryption.kms_key())
    };
}

pub(super) use {encrypted, with_key};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_raw_or_in_base64() {
        let raw: Vec<u8> = (0..32).collect();
        let text = STANDARD.encode(&raw);
        for good in [
            raw.clone(),
            text.clone().into_bytes(),
            format!("{text}\n").into_bytes(),
        ] {
            assert_eq!(key_of(&good), Some(raw.clone()));
        }
        for bad in ["", "short", &text[1..], &text.repeat(5)] {
            assert_eq!(key_of(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = CustomerKey {
            key: "very-secret".to_owned(),
            md5: "very-secret".to_owned(),
        };
        assert_eq!(format!("{key:?}"), "CustomerKey");
    }
}
