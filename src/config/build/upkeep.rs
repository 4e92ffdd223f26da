//! The upkeep of etcd's database: its space, and the comparison of the members' data.

use super::Builder;
use crate::config::fields::{
    REPAIR_CHECK_INTERVAL, REPAIR_CORRUPT, SPACE_DEFRAG_MIN_SIZE, SPACE_DEFRAG_ON_CALENDAR,
    SPACE_DEFRAG_PERCENT, SPACE_RECOVER,
};
use crate::model::{RepairSpec, SpaceSpec};

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
    pub(super) fn repair(&mut self) -> RepairSpec {
        RepairSpec {
            check_interval: self
                .optional(&REPAIR_CHECK_INTERVAL)
                .unwrap_or(RepairSpec::default().check_interval),
            corrupt: self.read(&REPAIR_CORRUPT),
        }
    }
}
