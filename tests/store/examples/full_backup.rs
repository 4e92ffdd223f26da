//! Takes one full backup of an etcd into an S3 server and prints its duration and memory use.
//!
//! `cargo run --release -p etcd-agent-store-tests --example full_backup -- ETCD_URL S3_URL BUCKET
//! CREDENTIALS_FILE`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use etcd_agent::adapters::store::open_store;
use etcd_agent::backup::{BackupMeta, take_full};
use etcd_agent::config::{S3Options, StoreSettings, StoreUrl};
use etcd_agent::model::{ClusterName, Epoch, NodeName, UnixMs};
use etcd_agent_store_tests::Client;

fn memory(field: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let store = open_store(&StoreSettings {
        url: StoreUrl::S3 {
            bucket: args[2].clone(),
            prefix: "bench".to_owned(),
        },
        endpoint: Some(args[1].clone()),
        region: None,
        path_style: true,
        ca_file: None,
        credentials_file: Some(PathBuf::from(&args[3])),
        shared: true,
        options: S3Options::default(),
    });
    let etcd = Client {
        client: etcd_client::Client::connect([&args[0]], None).await.unwrap(),
        cut: None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let meta = BackupMeta {
        cluster: ClusterName::new("prod").unwrap(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: UnixMs(u64::try_from(now.as_millis()).unwrap()),
        seq: u64::from(now.subsec_nanos()),
        ordered: false,
    };
    let start = Instant::now();
    let taken = take_full(&etcd, store.as_ref(), &meta, |_| {}).await.unwrap();
    println!(
        "{:.3} s, {} bytes stored, peak {} kB, afterwards {} kB",
        start.elapsed().as_secs_f64(),
        taken.size_bytes,
        memory("VmHWM:"),
        memory("VmRSS:")
    );
}
