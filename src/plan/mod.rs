//! The pure planner: `plan(&Observation, &Memory) -> Decision`.
//!
//! No async, no IO, no clock, no randomness, no logging: time and seed are fields of the observation.
//! Execution makes no choices of its own. The concerns are asked in order, and the first that has an action
//! wins. An impossible situation gives a reason with `halt`, which is shown to the operator, never a panic.

mod after;
mod alarms;
mod archive_trouble;
mod assign;
mod assigned_version;
mod backup;
mod bootstrap;
mod bootstrap_checks;
mod clocks;
mod context;
mod coordinator_view;
mod corruption;
mod data;
mod deletion;
mod directive;
mod downgrade;
mod drift;
mod electors;
mod epoch;
mod epoch_etcd;
mod etcd_unit;
mod failure;
mod founder;
mod gate;
mod grant;
mod hand;
mod hashes;
mod identity;
mod ignored_settings;
mod increments;
mod inspection;
mod invitation;
mod joiner;
mod last_words;
mod leader;
mod learner;
mod leave;
mod lock_holder;
mod member_health;
mod membership;
mod moves;
mod next_start;
mod old;
mod orders;
mod preview;
mod prune;
mod reboot_lock;
mod recovery;
mod removal;
mod removal_order;
mod removed;
mod resize;
mod restart;
mod retention;
mod safety;
mod space;
mod spares;
mod standalone_backup;
pub mod start;
mod status_line;
mod steps;
mod stop;
mod store_reports;
#[cfg(test)]
mod tests;
mod tls_files;
mod transport;
mod transport_list;
mod transport_step;
mod under_way;
mod unfinished;
mod upgrade;
mod verify;
mod version;
mod voters_left;

pub use after::after;
pub use deletion::{Deletion, Stored, may_delete};
pub use directive::{known_orders, ordered_out};
pub use failure::{is_lost, misses};
pub use grant::GRANT_COOLDOWN;
pub use hashes::compare_hashes;
pub use ignored_settings::{newly_ignored, objection as setting_objection};
pub use leave::{another_is_down, leave_to_stop};
pub use lock_holder::lock_of;
pub use moves::{end_objection, move_objection};
pub use preview::preview;
pub use reboot_lock::has_recorded;
pub use removal_order::objection;
pub use retention::{judge, keep_origin, needed_origin};
pub use safety::{Change, has_caught_up, is_healthy, keeps_quorum, other_stores, with_other_stores};
pub use space::{SpaceSeen, wants_defrag};
pub use standalone_backup::{backup_in, backup_of};
pub use steps::{request_steps, steps};
pub use stop::ok_to_stop;
pub use tls_files::{StopWish, nothing_found, restart_objection, stop_objection};
pub use transport::transport_objection;
pub use transport_step::{TransportSeen, next_transport};
pub use upgrade::{downgrade_to_validate, newest_package, upgrade_objection};
pub use version::{
    BinaryTrouble, EtcdSeen, binary_trouble, disk_decides, version_objection, wants_after_reading,
    wants_version,
};

use context::Context;
use status_line::status_line;

use crate::model::{Action, Decision, Memory, Observation};

/// Decides what this agent does now: at most one action, the reasons, and when to look again.
pub fn plan(observation: &Observation, memory: &Memory) -> Decision {
    let mut cx = Context::new(observation, memory);
    failure::note(&mut cx);
    let action = decide(&mut cx);
    let text = status_line(&cx, action.as_ref());
    if action.is_none() {
        clocks::differ(&mut cx);
    }
    cx.into_decision(action, text)
}

fn decide(cx: &mut Context<'_>) -> Option<Action> {
    if safety::halted(cx) {
        return None;
    }
    directive::report_paused(cx);
    store_reports::report_commands(cx);
    store_reports::report_history(cx);
    alarms::report(cx);
    epoch_etcd::report(cx);
    corruption::report(cx);
    version::report(cx);
    downgrade::await_conversion(cx);
    drift::report(cx);
    ignored_settings::report(cx);
    tls_files::report(cx);
    archive_trouble::report(cx);
    let first = epoch::follow(cx)
        .or_else(|| directive::take(cx))
        .or_else(|| resize::follow(cx))
        .or_else(|| inspection::look(cx));
    if first.is_some() || old::refuses(cx) {
        return first;
    }
    cx.order(recovery::restore)
        .or_else(|| {
            // A person's order is carried out even during a pause.
            if bootstrap::asked(cx) {
                return cx.order(bootstrap::first_epoch);
            }
            orders::unless_paused(cx, bootstrap::first_epoch)
        })
        .or_else(|| assign::assign(cx))
        .or_else(|| etcd_unit::keep_running(cx))
        .or_else(|| hand::over(cx))
        .or_else(|| leader::answer(cx))
        .or_else(|| restart::granted(cx))
        .or_else(|| space::granted(cx))
        .or_else(|| reboot_lock::follow(cx))
        .or_else(|| coordinate(cx))
        .or_else(|| electors::regain(cx))
        .or_else(|| increments::flush(cx))
        .or_else(|| backup::due(cx))
        .or_else(|| increments::increments(cx))
        .or_else(|| prune::prune(cx))
        .or_else(|| verify::due(cx))
        .or_else(|| orders::unless_paused(cx, corruption::due))
        .or_else(|| resize::remember(cx))
        .or_else(|| inspection::look_again(cx))
        .or_else(|| inspection::note_mount(cx))
        .or_else(|| inspection::identify(cx))
        .or_else(|| inspection::ask_base(cx))
        .or_else(|| inspection::read_tls_files(cx))
        .or_else(|| inspection::compare_settings(cx))
        .or_else(|| inspection::read_log(cx))
        .or_else(|| inspection::read_v2_keys(cx))
        .or_else(|| inspection::look_at_archive(cx))
}

/// What the coordinator decides for the cluster.
fn coordinate(cx: &mut Context<'_>) -> Option<Action> {
    grant::give(cx)
        .or_else(|| leader::asked(cx))
        .or_else(|| removal_order::take_out(cx))
        .or_else(|| orders::unless_paused(cx, downgrade::prepare))
        .or_else(|| orders::unless_paused(cx, space::recover))
        .or_else(|| orders::unless_paused(cx, membership::change))
}
