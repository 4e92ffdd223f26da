//! `etcd-agent status --all`: several clusters, one line each. `clusters.toml` names a few hosts of each; the
//! first that answers over ssh speaks for its cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use super::exit::{Exit, Failure, Outcome};
use super::health::{self, Problem};
use super::out;
use super::ssh::{self, Ssh};
use super::status_view::Form;
use super::{colour, plain};
use crate::model::AdminStatus;
use crate::paths::Paths;

/// How long ssh may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one host may take to answer.
const ANSWER: Duration = Duration::from_secs(15);
/// The largest answer that is read.
const MAX_BODY: u64 = 8 << 20;

/// `clusters.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Hosts by cluster, as ssh takes them.
    clusters: BTreeMap<String, Vec<String>>,
}

/// What is known of a cluster.
#[derive(Debug, Serialize)]
struct Seen {
    /// The name in `clusters.toml`.
    cluster: String,
    /// As in `status`, or `unreachable`.
    health: String,
    /// The host that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    problems: Vec<Problem>,
    /// Why each host did not answer, one line each.
    errors: Vec<String>,
    /// What the host answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Box<AdminStatus>>,
}

/// `status -o json` of a host.
#[derive(Debug, Deserialize)]
struct Answer {
    health: String,
    problems: Vec<Problem>,
    #[serde(flatten)]
    status: Box<AdminStatus>,
}

/// The health of a cluster of which no host answers.
const SILENT: &str = "unreachable";

pub(super) async fn run(paths: &Paths, file: Option<PathBuf>, form: Form) -> Outcome {
    let file = match file {
        Some(file) => file,
        None => found(paths)?,
    };
    let clusters = read(&file)?;
    ask_all(&Ssh::here(CONNECT), ANSWER, clusters, form).await
}

async fn ask_all(
    ssh: &Ssh,
    within: Duration,
    clusters: BTreeMap<String, Vec<String>>,
    form: Form,
) -> Outcome {
    let asked = clusters
        .into_iter()
        .map(|(cluster, hosts)| async move { ask(ssh, within, cluster, &hosts).await });
    let all = futures::future::join_all(asked).await;
    match form {
        Form::Table | Form::Wide => {
            let text = render(&all);
            let text = plain::lines(&text);
            out::print_clean(&if colour::on() {
                colour::table(&text)
            } else {
                text.into_owned()
            })?;
        }
        Form::Json => drop(out::print_clean(&out::json(&out::named("clusters", &all))?)?),
        Form::Yaml => drop(out::print_clean(&out::yaml(&out::named("clusters", &all))?)?),
    }
    Ok(worst(&all))
}

/// The file of the user, or of the host.
fn found(paths: &Paths) -> Result<PathBuf, Failure> {
    let home = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let own = home("XDG_CONFIG_HOME").or_else(|| Some(home("HOME")?.join(".config")));
    let places: Vec<PathBuf> = own
        .map(|dir| dir.join("etcd-agent/clusters.toml"))
        .into_iter()
        .chain([paths.clusters_file()])
        .collect();
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let names: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::new(
            Exit::Usage,
            format!(
                "no clusters are named: write {} with e.g.\n[clusters]\nprod = [\"n1.prod.example\", \"n2.prod.example\"]",
                names.join(" or ")
            ),
        )
    })
}

fn read(file: &Path) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let read: File = toml::from_str(&text).map_err(|error| wrong(&error))?;
    if read.clusters.is_empty() {
        return Err(wrong(
            &"[clusters] is empty; expected e.g. prod = [\"n1.prod.example\"]",
        ));
    }
    for (cluster, hosts) in &read.clusters {
        if hosts.is_empty() {
            return Err(wrong(&format!(
                "clusters.{cluster}: found no host, expected at least one"
            )));
        }
        if let Some(host) = hosts.iter().find(|host| host.is_empty() || host.starts_with('-')) {
            return Err(wrong(&format!(
                "clusters.{cluster}: found {host:?}, expected a host as ssh takes it, e.g. root@n1.prod.example"
            )));
        }
    }
    Ok(read.clusters)
}

/// The answer of the first host that has one.
async fn ask(ssh: &Ssh, within: Duration, cluster: String, hosts: &[String]) -> Seen {
    let mut errors = Vec::new();
    for host in hosts {
        match tokio::time::timeout(within, answer(ssh, host)).await {
            Ok(Ok(answer)) => {
                return Seen {
                    cluster,
                    health: answer.health,
                    host: Some(host.clone()),
                    problems: answer.problems,
                    errors,
                    status: Some(answer.status),
                };
            }
            Ok(Err(why)) => errors.push(why),
            Err(_) => errors.push(format!(
                "{host}: no answer within {}",
                humantime::format_duration(within)
            )),
        }
    }
    Seen {
        cluster,
        health: SILENT.to_owned(),
        host: None,
        problems: Vec::new(),
        errors,
        status: None,
    }
}

async fn answer(ssh: &Ssh, host: &str) -> Result<Answer, String> {
    let words = ["status", "-o", "json"].map(str::to_owned);
    let mut child = tokio::process::Command::from(ssh.command(false, host, &words))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| ssh.not_started(&error).text)?;
    let (mut body, mut said) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (Some(out), Some(err)) = (out, err) else {
        return Err(format!("{host}: ssh has no output"));
    };
    let (mut out, mut err) = (out.take(MAX_BODY), err.take(MAX_BODY));
    let read = tokio::try_join!(
        out.read_to_end(&mut body),
        err.read_to_end(&mut said),
        child.wait()
    );
    let (_, _, ended) = read.map_err(|error| format!("{host}: {error}"))?;
    if let Some(why) = ssh::failed(ended.code(), host) {
        return Err(why);
    }
    serde_json::from_slice(&body).map_err(|error| {
        let said = String::from_utf8_lossy(&said);
        match said.lines().next() {
            Some(line) => format!("{host}: {line}"),
            None => {
                format!("{host}: the answer is not understood ({error}); is its agent of the same version?")
            }
        }
    })
}

fn render(all: &[Seen]) -> String {
    let row = |seen: &Seen| {
        let line = |text: &str| plain::line(text).into_owned();
        let mut cells = vec![line(&seen.cluster), line(&seen.health)];
        let dash = || "-".to_owned();
        match &seen.status {
            None => cells.extend([dash(), dash(), dash(), dash()]),
            Some(status) => {
                let good = health::serving(status);
                let versions: std::collections::BTreeSet<&str> =
                    good.values().map(|etcd| etcd.version.as_str()).collect();
                let backup = health::nodes(status)
                    .filter_map(|(_, seen)| seen.known().copied()?.last_backup.as_ref())
                    .map(|backup| backup.at)
                    .max();
                cells.push(format!("{}/{}", good.len(), status.size));
                cells.push(line(&versions.into_iter().collect::<Vec<_>>().join(",")));
                cells.push(
                    backup.map_or_else(dash, |at| format!("{} ago", out::age(status.node.now.since(at)))),
                );
                cells.push(line(seen.host.as_deref().unwrap_or("-")));
            }
        }
        let problems = seen.problems.iter().map(|problem| problem.text.as_str());
        let mut texts = problems.chain(seen.errors.iter().map(String::as_str));
        cells.push(match (texts.next(), texts.count()) {
            (None, _) => String::new(),
            (Some(first), 0) => line(first),
            (Some(first), more) => format!("{} (and {more} more)", line(first)),
        });
        cells
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let head = [
        "CLUSTER", "HEALTH", "SERVING", "ETCD", "BACKUP", "ASKED", "PROBLEM",
    ];
    out::table(&head, &rows)
}

/// The exit code of the cluster that is worst off.
fn worst(all: &[Seen]) -> Exit {
    let rank = |seen: &Seen| match seen.health.as_str() {
        "healthy" => (0, Exit::Ok),
        "starting" => (1, Exit::Starting),
        "degraded" => (2, Exit::Degraded),
        SILENT => (3, Exit::Unreachable),
        "down" => (4, Exit::Down),
        _ => (2, Exit::Failed),
    };
    all.iter()
        .map(rank)
        .max_by_key(|(rank, _)| *rank)
        .map_or(Exit::Ok, |(_, exit)| exit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::cli::status_view::shown;
    use crate::cli::tests::{fixture, schema};
    use crate::model::Fact;

    /// An ssh that answers for n1 and n2 with files, fails for "gone", and hangs for "slow".
    fn fake(dir: &Path) -> Ssh {
        let program = dir.join("ssh");
        let text = format!(
            "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\ncase $2 in\n gone) exit 255 ;;\n slow) exec sleep 60 ;;\n \
             odd) echo 'the agent does not run on this host' >&2; exit 3 ;;\nesac\ncat {}/$2; exit 6\n",
            dir.display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let well = fixture::status();
        let mut ill = fixture::status();
        ill.peers.insert(
            fixture::name("n3"),
            Fact::Unreachable("\u{1b}[2J\ntimed out".to_owned()),
        );
        for (host, status) in [("n1", well), ("n2", ill)] {
            std::fs::write(dir.join(host), shown(&status, Form::Json).unwrap()).unwrap();
        }
        Ssh {
            program,
            connect: CONNECT,
        }
    }

    async fn seen(ssh: &Ssh, clusters: &[(&str, &[&str])]) -> Vec<Seen> {
        let mut all = Vec::new();
        for (cluster, hosts) in clusters {
            let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            all.push(ask(ssh, Duration::from_secs(5), (*cluster).to_owned(), &hosts).await);
        }
        all
    }

    #[tokio::test]
    async fn the_first_host_that_answers_speaks_for_its_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let ssh = fake(dir.path());
        let all = seen(
            &ssh,
            &[
                ("prod", &["gone", "odd", "n1"]),
                ("test", &["n2"]),
                ("void", &["gone", "odd"]),
            ],
        )
        .await;
        insta::assert_snapshot!("clusters", render(&all));
        assert_eq!(worst(&all), Exit::Unreachable);
        assert_eq!(worst(&all[..1]), Exit::Ok);
        assert_eq!(worst(&all[..2]), Exit::Degraded);
        let json = serde_json::to_value(out::named("clusters", &all)).unwrap();
        assert_eq!(schema::objection("clusters", &json), None);
        assert_eq!(json["clusters"][0]["errors"].as_array().unwrap().len(), 2);
        assert_eq!(json["clusters"][1]["problems"][0]["code"], "members-missing");
    }

    #[tokio::test]
    async fn a_host_that_hangs_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let ssh = fake(dir.path());
        let within = Duration::from_millis(200);
        let silent = ask(&ssh, within, "prod".to_owned(), &["slow".to_owned()]).await;
        assert_eq!(silent.health, SILENT);
        assert!(
            silent.errors[0].contains("slow: no answer within 200ms"),
            "{silent:?}"
        );
    }

    #[test]
    fn a_bad_file_names_the_field() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clusters.toml");
        let rows = [
            ("[clusters]\n", "[clusters] is empty"),
            ("[clusters]\nprod = []\n", "clusters.prod: found no host"),
            (
                "[clusters]\nprod = [\"-oProxyCommand=x\"]\n",
                "clusters.prod: found \"-oProxyCommand=x\"",
            ),
            ("[clusters]\nprod = \"n1\"\n", "prod"),
            ("[cluster]\nprod = [\"n1\"]\n", "cluster"),
        ];
        for (text, expected) in rows {
            std::fs::write(&file, text).unwrap();
            let refused = read(&file).unwrap_err();
            assert!(
                refused.exit == Exit::Usage && refused.text.contains(expected),
                "{refused}"
            );
        }
        std::fs::write(&file, "[clusters]\nprod = [\"root@n1\", \"n2\"]\n").unwrap();
        assert_eq!(read(&file).unwrap()["prod"], ["root@n1", "n2"]);
    }
}
