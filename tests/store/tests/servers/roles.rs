//! Credentials that are not in a file: an instance's role and a web identity. A cloud's services issue them,
//! so these tests use fakes of those services. The temporary keys are real keys of the S3 server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use aws_sdk_s3::config::Credentials;
use bytes::Bytes;
use etcd_agent_store_tests::{AnyS3, Kind, agent};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

const ROLE: &str = "etcd-backup";

/// A fake of the instance metadata service (version 2 only) and of the security token service, for one role.
struct Cloud {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    keys: Credentials,
}

impl Cloud {
    async fn start(s3: &AnyS3) -> Self {
        let keys = s3.temporary().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, known) = (asked.clone(), keys.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (log, keys) = (log.clone(), known.clone());
                let service = service_fn(move |request| answer(request, log.clone(), keys.clone()));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(client), service));
            }
        });
        Self { address, asked, keys }
    }

    /// Whether a text contains the secret key or the session token.
    fn shown(&self, said: &str) -> bool {
        said.contains(self.keys.secret_access_key()) || said.contains(self.keys.session_token().unwrap())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(
    request: Request<Incoming>,
    log: Arc<Mutex<Vec<String>>>,
    keys: Credentials,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes);
    let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    log.lock()
        .unwrap()
        .push(format!("{} {} {body}", head.method, head.uri.path()));
    let session = head.headers.get("x-aws-ec2-metadata-token");
    let allowed = session.is_some_and(|token| token == "metadata-session");
    let (access, secret) = (keys.access_key_id(), keys.secret_access_key());
    let token = keys.session_token().unwrap();
    let (status, text) = match (head.method.as_str(), head.uri.path()) {
        ("PUT", "/latest/api/token") => (200, "metadata-session".to_owned()),
        ("GET", "/latest/meta-data/iam/security-credentials/") if allowed => (200, ROLE.to_owned()),
        ("GET", path) if allowed && path.ends_with(&format!("/security-credentials/{ROLE}")) => {
            let text = format!(
                r#"{{"Code":"Success","LastUpdated":"2026-01-01T00:00:00Z","Type":"AWS-HMAC","AccessKeyId":"{access}",
                    "SecretAccessKey":"{secret}","Token":"{token}","Expiration":"2099-01-01T00:00:00Z"}}"#
            );
            (200, text)
        }
        ("GET", _) if !allowed => (401, String::new()),
        ("POST", "/") if body.contains("WebIdentityToken=signed-by-the-cluster") => {
            let text = format!(
                "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
                 <AssumeRoleWithWebIdentityResult><AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/{ROLE}/s</Arn>\
                 <AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser><Credentials><AccessKeyId>{access}</AccessKeyId>\
                 <SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>\
                 <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
                 </AssumeRoleWithWebIdentityResponse>"
            );
            (200, text)
        }
        _ => (404, String::new()),
    };
    Response::builder()
        .status(status)
        .header(TTL, "21600")
        .body(Full::new(Bytes::from(text)))
}

/// Runs `etcd-agent store check` with only these variables. Returns its exit code and its output.
async fn check(root: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(agent());
    command.env_clear().envs(variables.iter().copied());
    command.arg("--root").arg(root).args(["store", "check"]);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let output = ended.await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn configured(s3: &AnyS3) -> PathBuf {
    let root = s3.dir().join("root");
    let config = root.join("etc/etcd-agent");
    fs::create_dir_all(&config).unwrap();
    let text = format!(
        "[store]\nurl = \"s3://backups/etcd/prod\"\nendpoint = {:?}\nregion = \"us-east-1\"\npath_style = true\n",
        s3.settings().endpoint.unwrap()
    );
    fs::write(config.join("config.toml"), text).unwrap();
    root
}

#[tokio::test]
async fn the_role_of_an_instance_opens_the_store() {
    let s3 = AnyS3::start(Kind::Minio).await;
    let cloud = Cloud::start(&s3).await;
    let root = configured(&s3);
    let metadata = format!("http://{}", cloud.address);
    let (code, said) = check(&root, &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &metadata)]).await;
    assert_eq!(code, Some(0), "{said}");
    let asked = cloud.asked();
    assert!(asked[0].starts_with("PUT /latest/api/token"), "{asked:?}");
    assert!(!cloud.shown(&said), "{said}");

    let (code, said) = check(&root, &[("AWS_EC2_METADATA_DISABLED", "true")]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("credentials"), "{said}");
    assert_eq!(cloud.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_web_identity_opens_the_store() {
    let s3 = AnyS3::start(Kind::Minio).await;
    let cloud = Cloud::start(&s3).await;
    let root = configured(&s3);
    let token = s3.dir().join("token");
    fs::write(&token, "signed-by-the-cluster").unwrap();
    let (service, file) = (format!("http://{}", cloud.address), token.to_str().unwrap());
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/etcd-backup"),
        ("AWS_ENDPOINT_URL_STS", &service),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let (code, said) = check(&root, &variables).await;
    assert_eq!(code, Some(0), "{said}");
    let asked = cloud.asked();
    assert!(asked[0].contains("AssumeRoleWithWebIdentity"), "{asked:?}");
    assert!(!cloud.shown(&said) && !said.contains("signed-by"), "{said}");

    fs::write(&token, "forged").unwrap();
    let (code, said) = check(&root, &variables).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("credentials") && !said.contains("forged"), "{said}");
}
