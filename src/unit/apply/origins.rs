//! Where the settings of `etcd.service` come from: the files of the unit, and systemd's own environment.

use std::collections::BTreeMap;
use std::path::Path;

use super::exec_line::{Env, Var, flags_of, words};
use super::view::{UnitView, systemd_major};
use crate::adapters::systemd::live::Live;
use crate::config::env_file;
use crate::render::variable;

/// The environment that the main process gets, with where each variable is set (systemd.exec(5)).
pub(super) fn environment(view: &UnitView) -> Env {
    let mut env = Env::new();
    let mut set = |key: &str, value: &str, place: String| {
        let value = value.to_owned();
        env.insert(key.to_owned(), Var { value, place });
    };
    for pair in &view.loaded.environment {
        if let Some((key, value)) = pair.split_once('=') {
            let place = view
                .place("Environment", |line| line.contains(&format!("{key}=")))
                .unwrap_or_else(|| view.loaded.fragment_path.clone());
            set(key, value, place);
        }
    }
    for (path, _) in &view.loaded.environment_files {
        for found in assignments(view, path) {
            set(&found.key, &found.value, format!("{path}:{}", found.line));
        }
    }
    for unset in &view.loaded.unset_environment {
        match unset.split_once('=') {
            None => {
                env.remove(unset);
            }
            Some((key, value)) => {
                if env.get(key).is_some_and(|var| var.value == value) {
                    env.remove(key);
                }
            }
        }
    }
    env
}

/// What an environment file assigns.
pub(super) fn assignments(view: &UnitView, path: &str) -> Vec<env_file::Assignment> {
    let text = view.text(path);
    text.map(|text| env_file::parse(text, view.systemd))
        .unwrap_or_default()
}

/// What sets the settings of the next start of `etcd.service`.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// The unit and its files.
    pub view: UnitView,
    /// The environment that systemd gives to all services (`systemctl set-environment`).
    pub manager: Vec<String>,
}

impl Origins {
    /// Asks systemd, and reads the files.
    ///
    /// Starts its own runtime, so it must not be called from within one.
    ///
    /// # Errors
    /// One line: what failed.
    pub fn read(env_file: &Path) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("starting a runtime: {error}"))?;
        let (loaded, manager, version) = runtime
            .block_on(async {
                let live = Live::connect().await?;
                let loaded = live.loaded().await?;
                zbus::Result::Ok((
                    loaded,
                    live.manager.environment().await?,
                    live.manager.version().await?,
                ))
            })
            .map_err(|error| format!("asking systemd for etcd.service: {error}"))?;
        let systemd = systemd_major(&version);
        let view = UnitView::read(loaded, BTreeMap::new(), env_file, Path::new(""), systemd);
        Ok(Self { view, manager })
    }

    /// What gives etcd this value of a flag at its next start: a file and line, or a command. `None` if nothing
    /// does.
    pub fn of(&self, flag: &str, value: &str) -> Option<String> {
        let view = &self.view;
        let env = environment(view);
        for argv in &view.loaded.exec_start {
            let words = words(argv, &env);
            let mut flags = flags_of(&words).into_iter();
            let found =
                flags.find(|found| found.name == flag && found.value.as_deref().unwrap_or("true") == value);
            if let Some(found) = found {
                return found
                    .var
                    .and_then(|name| env.get(&name).map(|var| var.place.clone()))
                    .or_else(|| view.place("ExecStart", |line| !line.is_empty()));
            }
        }
        let key = variable(flag);
        match env.get(&key) {
            Some(var) if var.value == value => Some(var.place.clone()),
            None if self.manager.contains(&format!("{key}={value}")) => {
                Some(format!("`systemctl set-environment {key}=...`"))
            }
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests;
