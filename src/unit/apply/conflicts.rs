//! Finds what would override our settings, each with its file and line and what to do. Pure.

use super::exec_line::{Env, Flag, flags_of, words};
use super::origins::{assignments, environment};
use super::view::UnitView;
use crate::render::variable;

/// Everything that keeps our settings from being in force. Empty when all is well.
pub fn conflicts(view: &UnitView) -> Vec<String> {
    let mut out = Vec::new();
    let ours_listed = ours_is_listed(view, &mut out);
    unset(view, &mut out);
    if ours_listed {
        other_files(view, &mut out);
    }
    let env = environment(view);
    for argv in &view.loaded.exec_start {
        flags(view, argv, &env, &mut out);
    }
    if view.loaded.exec_start.is_empty() {
        out.push(format!("{} has no ExecStart=", view.loaded.fragment_path));
    }
    runs_as_etcd(view, &mut out);
    gate(view, &mut out);
    // A conflict that the checks above do not recognize must still be reported.
    if out.is_empty() {
        for (key, value) in &view.ours {
            let found = env.get(key);
            if found.map(|var| &var.value) != Some(value) {
                let place = found.map_or("nothing", |var| var.place.as_str());
                out.push(format!("{key} is set by {place} and not by {}", view.env_file));
            }
        }
    }
    out
}

fn ours_is_listed(view: &UnitView, out: &mut Vec<String>) -> bool {
    let listed = view
        .loaded
        .environment_files
        .iter()
        .any(|(path, _)| *path == view.env_file);
    if listed {
        return true;
    }
    if !view.loaded.drop_in_paths.contains(&view.drop_in) {
        let name = view.drop_in.rsplit('/').next().unwrap_or_default();
        let other = view
            .loaded
            .drop_in_paths
            .iter()
            .find(|path| path.ends_with(&format!("/{name}")));
        out.push(match other {
            Some(other) => format!("{other} hides {}: remove it", view.drop_in),
            None => format!(
                "systemd does not list {} among the drop-ins of etcd.service",
                view.drop_in
            ),
        });
        return false;
    }
    let place = view
        .place("EnvironmentFile", str::is_empty)
        .unwrap_or_else(|| "a later drop-in".to_owned());
    out.push(format!(
        "{place}: `EnvironmentFile=` takes our environment file away: remove that line, or give its drop-in a name before 90-etcd-agent.conf"
    ));
    false
}

fn unset(view: &UnitView, out: &mut Vec<String>) {
    for entry in &view.loaded.unset_environment {
        let key = entry.split('=').next().unwrap_or_default();
        if view.ours.contains_key(key) {
            let place = view
                .place("UnsetEnvironment", |line| {
                    line.split_whitespace()
                        .any(|word| word.trim_matches(['"', '\'']) == entry)
                })
                .unwrap_or_else(|| "a drop-in".to_owned());
            out.push(format!(
                "{place}: `UnsetEnvironment={entry}` takes our setting away: remove it"
            ));
        }
    }
}

fn other_files(view: &UnitView, out: &mut Vec<String>) {
    let files = &view.loaded.environment_files;
    let Some(at) = files.iter().rposition(|(path, _)| *path == view.env_file) else {
        return;
    };
    let by_variable = view
        .loaded
        .exec_start
        .iter()
        .flatten()
        .any(|arg| arg.contains('$'));
    for (path, _) in files.iter().take(at).filter(|(path, _)| is_pattern(path)) {
        // It cannot override ours, but it may set variables that the command line uses.
        if by_variable {
            let place = listed_at(view, path);
            out.push(format!(
                "{place}: `EnvironmentFile={path}` is a pattern and is not checked, and ExecStart= takes flags from \
                 variables: name its files"
            ));
        }
    }
    for (path, _) in files.iter().skip(at + 1) {
        let place = listed_at(view, path);
        if is_pattern(path) {
            out.push(format!(
                "{place}: `EnvironmentFile={path}` is a pattern after ours and is not checked: name its files, or move it before 90-etcd-agent.conf"
            ));
        }
        if let Some(Err(why)) = view.texts.get(path) {
            out.push(format!(
                "{path} is read after ours ({place}) and cannot be checked: {why}"
            ));
        }
        for found in assignments(view, path) {
            if view
                .ours
                .get(&found.key)
                .is_some_and(|value| *value != found.value)
            {
                out.push(format!(
                    "{path}:{}: {}={} wins over ours, as {place} lists that file later: remove that line",
                    found.line, found.key, found.value
                ));
            }
        }
    }
}

fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Where an environment file is listed.
fn listed_at(view: &UnitView, path: &str) -> String {
    view.place("EnvironmentFile", |line| line.trim_start_matches('-') == path)
        .unwrap_or_else(|| "a later drop-in".to_owned())
}

fn flags(view: &UnitView, argv: &[String], env: &Env, out: &mut Vec<String>) {
    let exec = view
        .place("ExecStart", |line| !line.is_empty())
        .unwrap_or_else(|| view.loaded.fragment_path.clone());
    for Flag {
        name: flag,
        value,
        var,
    } in flags_of(&words(argv, env))
    {
        let key = variable(&flag);
        let shown = value
            .as_ref()
            .map_or_else(|| format!("--{flag}"), |value| format!("--{flag}={value}"));
        let from = match var.and_then(|name| Some((name.clone(), env.get(&name)?))) {
            Some((name, var)) => format!("{} ({name}, used by ExecStart= at {exec})", var.place),
            None => exec.clone(),
        };
        if flag == "config-file" {
            out.push(format!(
                "{from}: `{shown}` makes etcd ignore all other settings: take it out, and put what that file sets into [etcd.settings]"
            ));
            continue;
        }
        let off = value
            .as_deref()
            .is_some_and(|value| matches!(value, "" | "false"));
        match view.ours.get(&key) {
            Some(ours) if Some(ours) != value.as_ref() => {
                out.push(format!(
                    "{from}: the flag `{shown}` beats our {key}={ours}: take it out"
                ));
            }
            // Leaving our variable out instead would make the next start depend on a file that is not ours:
            // without the flag etcd would run on other data.
            Some(_) => {
                out.push(format!(
                    "{from}: the flag `{shown}` says the same as our {key}, and etcd starts with only one of them: take \
                     it out"
                ));
            }
            None if !off && view.loaded.unset_environment.contains(&key) => {
                out.push(format!(
                    "{from}: the flag `{shown}` is not allowed on a managed node: take it out"
                ));
            }
            // etcd: "conflicting environment variable is shadowed by corresponding command-line flag".
            None => {
                if let Some(var) = env.get(&key) {
                    out.push(format!(
                        "{from}: the flag `{shown}` and {key} at {} set the same, and etcd starts with only one of \
                         them: take one out",
                        var.place
                    ));
                }
            }
        }
    }
}

fn runs_as_etcd(view: &UnitView, out: &mut Vec<String>) {
    let user = &view.loaded.user;
    if user != "etcd" {
        let shown = if user.is_empty() { "root" } else { user };
        let place = view
            .place("User", |_| true)
            .unwrap_or_else(|| view.loaded.fragment_path.clone());
        out.push(format!(
            "{place}: etcd runs as {shown}, etcd-agent-data.service looks after its data as etcd: set User=etcd"
        ));
    }
}

fn gate(view: &UnitView, out: &mut Vec<String>) {
    // A missing drop-in has already been reported.
    if !view.loaded.drop_in_paths.contains(&view.drop_in) {
        return;
    }
    let ours = |commands: &[Vec<String>]| {
        commands.iter().any(|argv| {
            argv.iter().any(|arg| arg.ends_with("/etcd-agent")) && argv.iter().any(|arg| arg == "gate")
        })
    };
    for (name, commands) in [
        ("ExecStartPre", &view.loaded.exec_start_pre),
        ("ExecStop", &view.loaded.exec_stop),
    ] {
        if !ours(commands) {
            let place = view
                .place(name, str::is_empty)
                .unwrap_or_else(|| "a later drop-in".to_owned());
            out.push(format!(
                "{place}: `{name}=` takes the gate away: remove that line"
            ));
        }
    }
}

#[cfg(test)]
mod tests;
