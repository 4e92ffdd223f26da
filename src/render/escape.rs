//! Quoting of rendered values for environment files, shells and unit files.

use std::path::Path;

/// A value that cannot be rendered safely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found:?}: {why}")]
pub struct RenderError {
    /// The setting.
    pub what: String,
    /// Its value.
    pub found: String,
    /// Why it cannot be rendered.
    pub why: &'static str,
}

/// A value for `EnvironmentFile=`, in double quotes.
///
/// systemd (`src/basic/env-file.c`, `SHELL_NEED_ESCAPE`) removes the backslash before `"`, `\`, `` ` `` and
/// `$` inside double quotes, as a shell does, and expands nothing.
///
/// # Errors
/// [`RenderError`] for control characters: a newline could inject a second assignment.
pub fn env_value(what: &str, value: &str) -> Result<String, RenderError> {
    no_control(what, value)?;
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '`' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    Ok(out)
}

/// A word for a shell: unchanged if it needs no quotes, else in single quotes.
///
/// # Errors
/// [`RenderError`] for control characters.
pub fn shell_word(what: &str, value: &str) -> Result<String, RenderError> {
    no_control(what, value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.:,@%+[]".contains(c);
    // Brackets are a glob only if a matching file exists, but they are quoted in any case.
    if !value.is_empty() && value.chars().all(|c| plain(c) && !matches!(c, '[' | ']')) {
        return Ok(value.to_owned());
    }
    Ok(format!("'{}'", value.replace('\'', r"'\''")))
}

/// A path in a unit file. Only characters that need no quoting there are allowed: `%` would be a specifier,
/// and a space would split the path.
pub(super) fn unit_path(what: &str, path: &Path) -> Result<String, RenderError> {
    let text = path.to_string_lossy().into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    if path.is_absolute() && text.chars().all(plain) {
        return Ok(text);
    }
    Err(RenderError {
        what: what.to_owned(),
        found: text,
        why: "in a unit file only an absolute path of a-z A-Z 0-9 / . _ - + @ : is possible",
    })
}

fn no_control(what: &str, value: &str) -> Result<(), RenderError> {
    if value.chars().any(char::is_control) {
        return Err(RenderError {
            what: what.to_owned(),
            found: value.to_owned(),
            why: "a value must not hold a newline or another control character",
        });
    }
    Ok(())
}
