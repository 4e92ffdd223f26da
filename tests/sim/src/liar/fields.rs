//! The lie about each field of what nodes report of themselves. A new field does not compile until it has one.

use etcd_agent::model::{AssignmentSummary, EnquireReply, EtcdStatus, NodeStatus, Steering};

/// The functions are those of `status.rs`.
const _: fn(&NodeStatus) = |status| {
    let NodeStatus {
        node: _,                  // `who`
        agent_version: _,         // `who`
        incarnation: _,           // `identity`
        boot_id: _,               // `who`
        cluster: _,               // `who`
        spec_digest: _,           // `identity`
        electorate_digest: _,     // `identity`
        store_digest: _,          // `identity`
        eligible: _,              // `status`
        unit: _,                  // `of_itself`, `unknown`
        data: _,                  // `of_itself`, `unknown`
        assignment: _,            // `of_itself`, `assigned`
        etcd: _,                  // `etcd.rs`, `unknown`
        members: _,               // `etcd::list`, `unknown`
        etcd_too_old: _,          // `troubles`
        v2_entries: _,            // `versions`
        v2_trouble: _,            // `troubles`
        version_trouble: _,       // `versions`
        etcd_binaries: _,         // `versions`
        newest_epoch: _,          // `status`
        voted: _,                 // `identity`
        genesis: _,               // `status`
        silent_agents: _,         // `others`
        silent_etcds: _,          // `others`
        backup_failures: _,       // `backups`
        store_failures: _,        // `troubles`
        peer_url: _,              // `troubles`
        transport: _,             // `transport`
        tls_trouble: _,           // `troubles`
        binary_trouble: _,        // `versions`
        archive_trouble: _,       // `troubles`
        last_backup: _,           // `backups`
        certificate_not_after: _, // `remarks`
        steering: _,              // `steering.rs`
        insecure: _,              // `remarks`
        now: _,                   // `troubles`
        text: _,                  // `remarks`
    } = status;
};

/// The functions are those of `etcd.rs`.
const _: fn(&EtcdStatus) = |etcd| {
    let EtcdStatus {
        version: _,         // `seldom`
        storage_version: _, // `seldom`
        downgrade_to: _,    // `seldom`
        cluster_id: _,      // `seldom`
        member_id: _,       // `usual`
        leader: _,          // `usual`
        is_learner: _,      // `usual`
        term: _,            // `usual`
        index: _,           // `usual`
        applied: _,         // `usual`
        db_size_bytes: _,   // `seldom`
        db_in_use_bytes: _, // `seldom`
        revision: _,        // `seldom`
        errors: _,          // `seldom`
    } = etcd;
};

/// The functions are those of `steering.rs`.
const _: fn(&Steering) = |steering| {
    let Steering {
        directives: _,        // `orders`
        wants_restart: _,     // `usual`
        waits_to_stop: _,     // `usual`
        defrag: _,            // `seldom`
        compacted: _,         // `seldom`
        hash_check: _,        // `seldom`
        grant: _,             // `usual`
        grants_over: _,       // `usual`
        leader_ask: _,        // None: one node may pass such an order on.
        vouched_gone: _,      // None: one node may pass such an order on.
        restoring: _,         // `seldom`
        wants_reboot_lock: _, // `usual`
        reboot_locks: _,      // `seldom`
    } = steering;
};

/// The functions are those of `status.rs`.
const _: fn(&AssignmentSummary) = |assigned| {
    let AssignmentSummary {
        generation: _,   // `assigned`
        epoch: _,        // `of_itself`
        cluster_id: _,   // `assigned`
        member_id: _,    // `of_itself`
        started_once: _, // `of_itself`
        etcd_version: _, // `assigned`
    } = assigned;
};

/// The functions are those of `answers.rs`.
const _: fn(&EnquireReply) = |reply| {
    let EnquireReply {
        from: _,           // `seldom`
        incarnation: _,    // `seldom`
        newest_epoch: _,   // `enquired`
        chosen: _,         // `enquired`
        votes: _,          // `enquired`, `seldom`
        incarnations: _,   // `seldom`, about the asker
        superseded: _,     // `seldom`, about the asker and itself
        may_have_voted: _, // `seldom`
        new_memory: _,     // `seldom`
    } = reply;
};
