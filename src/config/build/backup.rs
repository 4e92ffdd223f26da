//! Backups and their encryption.

use std::time::Duration;

use super::Builder;
use crate::config::fields::{
    BACKUP_ENCRYPT_TO, BACKUP_FORMAT, BACKUP_INCREMENT_INTERVAL, BACKUP_INCREMENTS, BACKUP_INTERVAL,
    BACKUP_MAX_INCREMENTS, BACKUP_ON_CALENDAR, BACKUP_RETENTION_COUNT, BACKUP_RETENTION_DAILY,
    BACKUP_RETENTION_ENABLED, BACKUP_RETENTION_HOURLY, BACKUP_RETENTION_RECENT, BACKUP_RETENTION_WEEKLY,
    BACKUP_RETENTION_YEARLY, BACKUP_VERIFY_INTERVAL, RESTORE_ACCEPT_PLAINTEXT_BEFORE, RESTORE_IDENTITY_FILE,
};
use crate::config::settings::Encryption;
use crate::model::{BackupFormat, BackupSpec, Calendar, Retention};

impl Builder<'_> {
    pub(super) fn backup(&mut self) -> BackupSpec {
        // Untested backups prove nothing, so the newest is verified daily by default, which costs
        // one download. A node that can only encrypt cannot verify.
        let encrypt_only =
            self.value(BACKUP_ENCRYPT_TO.key).is_some() && self.value(RESTORE_IDENTITY_FILE.key).is_none();
        let daily = (!encrypt_only).then(|| Duration::from_hours(24));
        let increments = self.read(&BACKUP_INCREMENTS);
        let interval = self.read(&BACKUP_INCREMENT_INTERVAL);
        BackupSpec {
            on_calendar: self.calendar(),
            verify_interval: self.optional(&BACKUP_VERIFY_INTERVAL).unwrap_or(daily),
            increment_interval: increments.then_some(interval),
            max_increments: self.read(&BACKUP_MAX_INCREMENTS),
            format: self.read(&BACKUP_FORMAT),
            retention: Retention {
                enabled: self.read(&BACKUP_RETENTION_ENABLED),
                recent: self.read(&BACKUP_RETENTION_RECENT),
                hourly: self.read(&BACKUP_RETENTION_HOURLY),
                daily: self.read(&BACKUP_RETENTION_DAILY),
                weekly: self.read(&BACKUP_RETENTION_WEEKLY),
                yearly: self.read(&BACKUP_RETENTION_YEARLY),
                count: self.read(&BACKUP_RETENTION_COUNT),
            },
        }
    }

    fn calendar(&mut self) -> Option<Calendar> {
        let calendar = self.optional(&BACKUP_ON_CALENDAR)?;
        if self.value(BACKUP_INTERVAL.key).is_some() {
            let text = "cannot be set together with backup.interval: keep one of them";
            self.wrong(BACKUP_ON_CALENDAR.key, text.to_owned());
        }
        Some(calendar)
    }

    pub(super) fn encryption(&mut self) -> Encryption {
        let encryption = Encryption {
            recipients: self.optional(&BACKUP_ENCRYPT_TO).unwrap_or_default(),
            identity_file: self.optional(&RESTORE_IDENTITY_FILE),
            accept_plaintext_before: self.optional(&RESTORE_ACCEPT_PLAINTEXT_BEFORE),
        };
        let verifies = self.optional(&BACKUP_VERIFY_INTERVAL).flatten();
        let cannot_decrypt =
            encryption.identity_file.is_none() && !self.is_inconclusive(RESTORE_IDENTITY_FILE.key);
        if !encryption.recipients.is_empty() && cannot_decrypt && verifies.is_some() {
            let text = "needs restore.identity_file, as backup.encrypt_to is set: a backup that cannot be decrypted cannot be verified";
            self.wrong(BACKUP_VERIFY_INTERVAL.key, text.to_owned());
        }
        let format = self.read(&BACKUP_FORMAT);
        if !encryption.recipients.is_empty() && format == BackupFormat::EtcdManager {
            let text = "cannot be etcd-manager's while backup.encrypt_to is set: etcd-manager reads no encrypted backup";
            self.wrong(BACKUP_FORMAT.key, text.to_owned());
        }
        encryption
    }
}
