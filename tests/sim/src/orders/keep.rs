//! An order to keep a backup.

use std::sync::Arc;

use etcd_agent::model::{BackupChange, BackupId, BackupOrder};
use etcd_agent::ports::AgentHandle;

use crate::sim::Sim;

/// Somebody orders to keep the oldest backup that is not kept yet. If the agent says so, it stays for good.
pub fn keep_backup(sim: &Arc<Sim>, host: usize) {
    let committed = |key: &String| BackupId::new(key.strip_suffix("/backup.json")?.rsplit('/').next()?).ok();
    let oldest = {
        let world = sim.world();
        let store = world.store_of(host);
        store.and_then(|store| {
            let mut all = store.objects.keys().filter_map(committed);
            all.find(|id| !store.kept.contains(id))
        })
    };
    let (Some(agent), Some(backup)) = (sim.agent(host), oldest) else {
        return;
    };
    let order = BackupOrder {
        backup,
        change: BackupChange::Keep { reason: None },
        dry_run: false,
    };
    let sim = sim.clone();
    tokio::spawn(async move {
        let answer = agent.change_backup(&order).await;
        let mut world = sim.world();
        world.tell(|_| format!("   keep {}: {answer:?}", order.backup));
        let Ok(view) = answer else { return };
        let gone = world.store_of_mut(host).is_some_and(|store| {
            let there = store
                .objects
                .keys()
                .filter_map(committed)
                .any(|id| id == view.backup);
            store.kept.insert(view.backup.clone());
            !there
        });
        if gone {
            world.violate(7, format!("a backup is kept that is gone: {}", view.backup));
        }
    });
}
