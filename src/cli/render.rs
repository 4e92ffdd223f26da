//! `etcd-agent render`: etcd's settings as environment, drop-in or flags.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use clap::ValueEnum;

use super::exit::{Exit, Failure, Outcome};
use super::out;
use super::progress::note;
use crate::config;
use crate::model::{
    Assignment, Epoch, FirstStart, Generation, InitialState, NodeName, RaftTerm, Role, Spec, cluster_id_of,
    member_id_of,
};
use crate::paths::Paths;
use crate::render;
use crate::unit::apply::selected_etcd;

/// `-o`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// The environment file
    #[default]
    Env,
    /// The drop-in of etcd.service
    Dropin,
    /// Flags on one line
    Flags,
}

/// Print the settings that etcd is started with on this node
#[derive(Debug, clap::Args)]
pub(super) struct RenderArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    form: Form,
}

pub(super) fn run(paths: &Paths, args: &RenderArgs) -> Outcome {
    let Some(loaded) = config::load(paths)? else {
        return Err(Failure::new(
            Exit::Usage,
            "not configured: run `etcd-agent init` or write /etc/etcd-agent/config.toml",
        ));
    };
    let spec = &loaded.settings.spec;
    let assignment = if let Some(assignment) = persisted(paths)? {
        assignment
    } else {
        note(
            "nothing is assigned to this node yet: this is what a new cluster would begin with, and its token will differ",
        );
        would_be(spec)
    };
    let mut spec = spec.clone();
    if let Some(version) = assignment.etcd_version {
        spec.etcd.binary = Some(selected_etcd(&spec.etcd, version).map_err(Failure::failed)?);
    }
    let text = match args.form {
        Form::Env => render::env_file(&assignment, &spec),
        Form::Dropin => render::drop_in(&assignment, &spec, &Paths::system().etcd_env()),
        Form::Flags => render::flags(&assignment, &spec),
    };
    out::print(&text.map_err(Failure::failed)?)?;
    Ok(Exit::Ok)
}

fn persisted(paths: &Paths) -> Result<Option<Assignment>, Failure> {
    let path = paths.assignment();
    let cannot =
        |error: &dyn std::fmt::Display| Failure::failed(format!("cannot read {}: {error}", path.display()));
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| cannot(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(cannot(&"only root may (run as root)"))
        }
        Err(error) => Err(cannot(&error)),
    }
}

/// The assignment of this node in the first epoch of this spec, with a token of zeros.
pub(super) fn would_be(spec: &Spec) -> Assignment {
    let mut names: Vec<&NodeName> = spec.nodes.keys().take(spec.size).collect();
    if !names.contains(&&spec.node) {
        names.pop();
        names.push(&spec.node);
    }
    let members: BTreeMap<NodeName, Vec<String>> = names
        .into_iter()
        .map(|name| (name.clone(), spec.peer_url(name).into_iter().collect()))
        .collect();
    let token = format!("{}-1-00000000", spec.cluster);
    let own = members.get(&spec.node).map_or(&[][..], Vec::as_slice);
    Assignment {
        generation: Generation(1),
        epoch: Epoch(1),
        node: spec.node.clone(),
        member_id: member_id_of(own, &token),
        cluster_id: cluster_id_of(&members, &token),
        token,
        role: Role::Founder,
        initial_state: InitialState::New,
        initial_cluster: members,
        data_dir: spec.etcd.data_dir.clone(),
        wal_dir: spec.etcd.wal_dir.clone(),
        started: false,
        removed: false,
        listed: RaftTerm::default(),
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: None,
        settings_digest: spec.settings_digest(),
        etcd_version: None,
    }
}
