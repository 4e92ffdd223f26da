//! The upkeep of etcd's database: its space, and the comparison of the members' data.

use std::collections::BTreeMap;

use super::Builder;
use crate::config::fields::{
    REPAIR_CHECK_INTERVAL, REPAIR_CORRUPT, SPACE_DEFRAG_MIN_SIZE, SPACE_DEFRAG_ON_CALENDAR,
    SPACE_DEFRAG_PERCENT, SPACE_QUOTA, SPACE_RECOVER,
};
use crate::config::machine::Machine;
use crate::config::settings::Quota;
use crate::model::{RepairSpec, SpaceSpec};

/// etcd's flag.
const QUOTA_FLAG: &str = "quota-backend-bytes";

impl Builder<'_> {
    pub(super) fn space(&mut self) -> SpaceSpec {
        let default = SpaceSpec::default();
        SpaceSpec {
            defrag_percent: self.read(&SPACE_DEFRAG_PERCENT),
            defrag_min_size: self
                .optional(&SPACE_DEFRAG_MIN_SIZE)
                .unwrap_or(default.defrag_min_size),
            defrag_on_calendar: self.optional(&SPACE_DEFRAG_ON_CALENDAR),
            recover: self.read(&SPACE_RECOVER),
        }
    }
    /// etcd's flags, with the quota of `space.quota` among them.
    pub(super) fn with_quota(&mut self, machine: &Machine) -> BTreeMap<String, String> {
        let mut settings = self.etcd_settings();
        let Some(quota) = self.optional(&SPACE_QUOTA) else {
            return settings;
        };
        let bytes = match quota {
            Quota::Auto => machine.quota(),
            Quota::Bytes(bytes) => bytes,
        };
        if let Some(other) = settings.insert(QUOTA_FLAG.to_owned(), bytes.to_string()) {
            let text = format!("etcd.settings.{QUOTA_FLAG} is {other} as well: set only one of them");
            self.wrong(SPACE_QUOTA.key, text);
        }
        settings
    }

    pub(super) fn repair(&mut self) -> RepairSpec {
        RepairSpec {
            check_interval: self
                .optional(&REPAIR_CHECK_INTERVAL)
                .unwrap_or(RepairSpec::default().check_interval),
            corrupt: self.read(&REPAIR_CORRUPT),
        }
    }
}
