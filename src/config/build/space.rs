//! The space of etcd's database.

use super::Builder;
use crate::config::fields::{
    SPACE_DEFRAG_MIN_SIZE, SPACE_DEFRAG_ON_CALENDAR, SPACE_DEFRAG_PERCENT, SPACE_RECOVER,
};
use crate::model::SpaceSpec;

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
}
