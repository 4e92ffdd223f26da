//! The SDK's client. It is created at the first call, and again when the files that it was created from
//! change.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::BehaviorVersion;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient};
use aws_sdk_s3::types::ChecksumAlgorithm;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::{Proxy, Sse, StoreSettings};

use super::sse::Encryption;

const CONNECT: Duration = Duration::from_secs(5);
/// The deadline for one attempt, also for a part of an upload: a part of 7 MiB needs 61 KB/s.
const ATTEMPT: Duration = Duration::from_mins(2);
const OPERATION: Duration = Duration::from_mins(6);
const ATTEMPTS: u32 = 5;
const MAX_BACKOFF: Duration = Duration::from_secs(10);
const POOL_IDLE: Duration = Duration::from_secs(10);
/// The addresses where a host gets the credentials of its role. A proxy cannot answer these requests for the
/// host.
const METADATA: &str = "169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23";

/// The modification times of the files that a client was created from.
type Stamp = [Option<SystemTime>; 3];

/// A cache of at most one client.
#[derive(Debug, Default)]
pub(super) struct Cached(Mutex<Option<(Stamp, Connected)>>);

/// A client, and the server-side encryption that its calls request.
#[derive(Debug, Clone)]
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) encryption: Encryption,
    /// The checksum algorithm with which a multipart upload begins. Its parts and its completion must use the
    /// same one.
    pub(super) checksum: Option<ChecksumAlgorithm>,
    /// Whether TLS and the signed checksum already protect a part's bytes. Their SHA-256 would then only take
    /// time. AWS's own command line omits it under the same conditions.
    pub(super) covered: bool,
}

impl Cached {
    /// The client. Creates a new one if there is none or if a file of the settings has changed.
    pub(super) async fn get(&self, settings: &StoreSettings) -> Result<Connected, String> {
        let key_file = match &settings.options.sse {
            Sse::Customer { key_file } => Some(key_file.as_path()),
            _ => None,
        };
        let stamp = [
            modified(settings.credentials_file.as_deref()),
            modified(settings.ca_file.as_deref()),
            modified(key_file),
        ];
        if let Some((made, connected)) = &*self.lock()
            && *made == stamp
        {
            return Ok(connected.clone());
        }
        let connected = Connected {
            client: make(settings).await?,
            encryption: Encryption::of(settings)?,
            checksum: settings.options.checksums.then_some(ChecksumAlgorithm::Crc32),
            covered: settings.options.checksums && !is_plain(settings),
        };
        *self.lock() = Some((stamp, connected.clone()));
        Ok(connected)
    }

    /// Drops the client and the credentials that it caches.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Stamp, Connected)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn modified(path: Option<&Path>) -> Option<SystemTime> {
    std::fs::metadata(path?).ok()?.modified().ok()
}

async fn make(settings: &StoreSettings) -> Result<Client, String> {
    let http = http_client(settings)?;
    let retry = RetryConfig::standard()
        .with_max_attempts(ATTEMPTS)
        .with_max_backoff(MAX_BACKOFF);
    let timeout = TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(OPERATION)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http.clone())
        .retry_config(retry)
        .timeout_config(timeout)
        .request_checksum_calculation(if settings.options.checksums {
            RequestChecksumCalculation::WhenSupported
        } else {
            // Newer SDKs add trailing checksums by default. Servers that do not support them answer 400 or
            // 501.
            RequestChecksumCalculation::WhenRequired
        })
        .response_checksum_validation(if settings.options.checksums {
            ResponseChecksumValidation::WhenSupported
        } else {
            ResponseChecksumValidation::WhenRequired
        });
    if let Some(region) = region(settings) {
        loader = loader.region(Region::new(region));
    }
    if let Some(path) = &settings.credentials_file {
        loader = loader.credentials_provider(from_file(path, http)?);
    }
    let shared = loader.load().await;
    if shared.region().is_none() {
        return Err("no region: set store.region".to_owned());
    }
    let mut config = aws_sdk_s3::config::Builder::from(&shared).force_path_style(settings.path_style);
    if let Some(endpoint) = &settings.endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(config.build()))
}

fn region(settings: &StoreSettings) -> Option<String> {
    let default = || settings.endpoint.as_ref().map(|_| "us-east-1".to_owned());
    settings.region.clone().or_else(default)
}

/// The credentials of this file, without any other source. The file's text appears in no error.
#[expect(
    deprecated,
    reason = "the new name is in aws-runtime, which is not for applications to depend on"
)]
fn from_file(path: &Path, http: SharedHttpClient) -> Result<ProfileFileCredentialsProvider, String> {
    use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read store.credentials_file {}: {error}", path.display()))?;
    if !text.contains("aws_access_key_id") {
        return Err(format!(
            "store.credentials_file {} has no aws_access_key_id: it must be an AWS shared credentials file with a \
             [default] section",
            path.display()
        ));
    }
    let files = ProfileFiles::builder()
        .with_contents(ProfileFileKind::Credentials, text)
        .build();
    // Without an HTTP client the provider panics, although nothing here makes a call.
    let config = ProviderConfig::default().with_http_client(http);
    Ok(ProfileFileCredentialsProvider::builder()
        .configure(&config)
        .profile_files(files)
        .profile_name("default")
        .build())
}

/// True if the endpoint of this store uses plain HTTP.
fn is_plain(settings: &StoreSettings) -> bool {
    let endpoint = settings.endpoint.as_ref();
    endpoint.is_some_and(|url| url.starts_with("http://"))
}

fn http_client(settings: &StoreSettings) -> Result<SharedHttpClient, String> {
    let plain = is_plain(settings);
    let trust = match &settings.ca_file {
        Some(path) => TrustStore::empty().with_pem_certificate(pem(path)?),
        // Without TLS no roots need to be in memory. Credentials from the file need none either.
        None if plain && settings.credentials_file.is_some() => TrustStore::empty(),
        None => TrustStore::default(),
    };
    let context = TlsContext::builder().with_trust_store(trust).build();
    let context = context.map_err(|error| format!("cannot set up TLS: {error}"))?;
    let proxy = proxy(&settings.options.proxy)?;
    // The SDK's plain HTTP client builder does not support a proxy. The connector's builder does, so use that
    // one.
    Ok(
        aws_smithy_http_client::Builder::new().build_with_connector_fn(move |settings, _| {
            let mut connector = Connector::builder()
                .pool_idle_timeout(POOL_IDLE)
                .proxy_config(proxy.clone());
            connector.set_connector_settings(settings.cloned());
            connector
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .tls_context(context.clone())
                .build()
        }),
    )
}

fn proxy(proxy: &Proxy) -> Result<ProxyConfig, String> {
    match proxy {
        Proxy::Environment => Ok(ProxyConfig::from_env()),
        Proxy::Off => Ok(ProxyConfig::disabled()),
        Proxy::Url(url) => ProxyConfig::all(url.as_str())
            .map(|proxy| proxy.no_proxy(METADATA))
            .map_err(|error| format!("store.proxy {}: {error}", without_user(url))),
    }
}

/// The bundle's text. It is checked here because the SDK panics on a malformed bundle.
fn pem(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |why: String| format!("store.ca_file {}: {why}", path.display());
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(format!("not PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(format!("not a certificate to trust: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(text)
}

/// An endpoint's address without `user:password@`.
pub(super) fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host = rest.find('/').map_or(rest, |slash| &rest[..slash]);
    let user = host.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[user..])
}
