//! The input of the search for conflicts: the unit as loaded, and the text of its files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::unit::files;
use crate::unit::loaded::LoadedUnit;

/// The unit and its files.
#[derive(Debug, Clone, Default)]
pub struct UnitView {
    /// As loaded.
    pub loaded: LoadedUnit,
    /// The text of each file in [`LoadedUnit::files`]; `None` when it is not there.
    pub texts: BTreeMap<String, Result<Option<String>, String>>,
    /// What we set.
    pub ours: BTreeMap<String, String>,
    /// Our environment file.
    pub env_file: String,
    /// Our drop-in.
    pub drop_in: String,
    /// The major version of the systemd that reads all of it.
    pub systemd: u32,
}

impl UnitView {
    /// Reads the files.
    pub fn read(
        loaded: LoadedUnit,
        ours: BTreeMap<String, String>,
        env_file: &Path,
        drop_in: &Path,
        systemd: u32,
    ) -> Self {
        let texts = loaded
            .files()
            .into_iter()
            .map(|path| {
                let of_environment = loaded.environment_files.iter().any(|(file, _)| file == path);
                (path.to_owned(), text(path, of_environment))
            })
            .collect();
        Self {
            loaded,
            texts,
            ours,
            env_file: env_file.display().to_string(),
            drop_in: drop_in.display().to_string(),
            systemd,
        }
    }

    /// The text of a file that exists and could be read.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path)?.as_ref().ok()?.as_deref()
    }

    /// The unit file and its drop-ins, in the order in which they apply.
    pub(super) fn unit_files(&self) -> impl DoubleEndedIterator<Item = &str> {
        std::iter::once(self.loaded.fragment_path.as_str())
            .chain(self.loaded.drop_in_paths.iter().map(String::as_str))
    }

    /// `file:line` of the last line of the unit's files that is `key=value` with a value that `matches`.
    pub(super) fn place(&self, key: &str, matches: impl Fn(&str) -> bool) -> Option<String> {
        self.unit_files().rev().find_map(|path| {
            let text = self.text(path)?;
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.iter().rposition(|line| {
                line.trim()
                    .strip_prefix(key)
                    .and_then(|rest| rest.trim_start().strip_prefix('='))
                    .is_some_and(|value| matches(value.trim()))
            })?;
            Some(format!("{path}:{}", at + 1))
        })
    }
}

/// systemd ignores a line of a unit file that is not UTF-8, and refuses an environment file as a whole.
fn text(path: &str, of_environment: bool) -> Result<Option<String>, String> {
    match files::read_following(Path::new(path)) {
        Ok(None) => Ok(None),
        Ok(Some(body)) if of_environment => String::from_utf8(body)
            .map(Some)
            .map_err(|_| "it is not UTF-8 text, and systemd reads nothing of it".to_owned()),
        Ok(Some(body)) => Ok(Some(String::from_utf8_lossy(&body).into_owned())),
        Err(error) => Err(error.to_string()),
    }
}

/// `257` of `257.9-1~deb13u1`.
pub(super) fn systemd_major(version: &str) -> u32 {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits
        .get(..end)
        .and_then(|major| major.parse().ok())
        .unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemds_major_version() {
        for (version, expected) in [
            ("257.9-1~deb13u1", 257),
            ("252", 252),
            ("v255.4", 255),
            ("x", u32::MAX),
        ] {
            assert_eq!(systemd_major(version), expected, "{version}");
        }
    }
}
