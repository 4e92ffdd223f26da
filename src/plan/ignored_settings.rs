//! Settings in `[etcd.settings]` that a version of etcd does not know. etcd starts without them, so nobody would
//! notice.

use super::context::Context;
use crate::model::{EtcdVersion, ReasonCode, Spec, ignores_flag};

/// Ends with the API that it serves. Whether keys would be lost is checked with the data (`crate::model::V2Names`).
const OF_THE_V2_API: &str = "enable-v2";

/// The settings that this version would ignore, each with the reason.
fn ignored(spec: &Spec, version: EtcdVersion) -> impl Iterator<Item = (&str, String)> {
    spec.etcd
        .settings
        .keys()
        .filter_map(move |name| Some((name.as_str(), ignores_flag(version, name)?)))
}

/// Why the cluster is not to get this version of etcd; `None` if it would ignore no setting.
pub fn objection(spec: &Spec, to: EtcdVersion) -> Option<String> {
    let (name, why) = ignored(spec, to).find(|(name, _)| *name != OF_THE_V2_API)?;
    Some(format!(
        "etcd {to} would ignore etcd.settings.{name} ({why}): take it out of the configuration first, on all nodes"
    ))
}

/// The settings that `after` has in addition to `before` and that the running etcd would ignore: for each its field and
/// what to do.
pub fn newly_ignored(before: &Spec, after: &Spec, running: EtcdVersion) -> Vec<(String, String)> {
    ignored(after, running)
        .filter(|(name, _)| *name != OF_THE_V2_API && !before.etcd.settings.contains_key(*name))
        .map(|(name, why)| {
            let text = format!(
                "etcd {running} runs here and would ignore it ({why}): take it out, or set it once etcd runs here in a \
                 version that has it"
            );
            (format!("etcd.settings.{name}"), text)
        })
        .collect()
}

/// Says which setting the running etcd ignores.
pub(super) fn report(cx: &mut Context<'_>) {
    let running = cx.obs.me.etcd.known().map(|etcd| etcd.version.as_str());
    let Some(running) = running.and_then(EtcdVersion::reported) else {
        return;
    };
    if let Some((name, why)) = ignored(cx.spec, running).next() {
        let text = format!("etcd {running} ignores etcd.settings.{name}: {why}");
        cx.because(ReasonCode::SettingIgnored, text);
    }
}
