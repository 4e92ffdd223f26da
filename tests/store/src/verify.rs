//! Verifies a backup, without the sandbox.

use std::fs;
use std::path::Path;

use etcd_agent::backup::{self, Verification, VerifyMeta};
use etcd_agent::model::{BackupId, ClusterName, NodeName, UnixMs};
use etcd_agent::ports::{Etcd, ObjectStore, PortError, PortResult, RestoreReport, VerifyRestoreRequest};
use etcd_agent::unit::verify::{Programs, Prover};

use crate::{RealEtcd, cluster};

/// Verifies a backup like the agent, but without the unit that isolates the temporary etcd.
pub async fn verify(store: &dyn ObjectStore, id: &BackupId, etcd: &RealEtcd) -> PortResult<Verification> {
    verify_with(store, &cluster(), id, &etcd.bin, &etcd.member()).await
}

/// [`verify`] for a backup of this cluster. It uses the programs in `bin` and compares with `live`.
pub async fn verify_with(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    bin: &Path,
    live: &dyn Etcd,
) -> PortResult<Verification> {
    let work = tempfile::tempdir().unwrap();
    let prover = Prover {
        dir: work.path().to_owned(),
        tools: Programs::anywhere(vec![bin.to_owned()]),
    };
    let meta = VerifyMeta {
        cluster: cluster.clone(),
        id: id.clone(),
        node: NodeName::new("n1").unwrap(),
        now: UnixMs(1_772_337_906_000),
    };
    let verify_restore = async |request: VerifyRestoreRequest| -> PortResult<RestoreReport> {
        prover
            .verify_restore(&request)
            .await
            .map_err(PortError::Retryable)
    };
    let found = backup::verify(store, &meta, work.path(), live, verify_restore).await;
    let left: Vec<_> = fs::read_dir(work.path()).unwrap().collect();
    assert!(left.is_empty(), "files are left: {left:?}");
    found
}
