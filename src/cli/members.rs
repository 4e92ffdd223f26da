//! `etcd-agent member list`.

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::out::{self, Output};
use crate::model::MemberList;
use crate::paths::Paths;

pub(super) async fn run(paths: &Paths, output: Output) -> Outcome {
    let list: MemberList = Client::new(paths).get("/v1/members").await?;
    output.print(&list, render)?;
    Ok(Exit::Ok)
}

pub(super) fn render(list: &MemberList) -> String {
    let rows: Vec<Vec<String>> = list
        .members
        .iter()
        .map(|member| {
            let name = if member.name.is_empty() {
                "(not started)"
            } else {
                &member.name
            };
            let urls = |urls: &[String]| {
                if urls.is_empty() {
                    "-".to_owned()
                } else {
                    urls.join(",")
                }
            };
            vec![
                member.id.to_string(),
                name.to_owned(),
                if member.is_learner { "learner" } else { "voter" }.to_owned(),
                urls(&member.peer_urls),
                urls(&member.client_urls),
            ]
        })
        .collect();
    let table = out::table(&["MEMBER", "NODE", "ROLE", "PEER URLS", "CLIENT URLS"], &rows);
    let how = if list.linearizable {
        "confirmed by a quorum"
    } else {
        "as this node's etcd last knew it"
    };
    format!(
        "{table}\nCluster {}, raft term {}, {how}\n",
        list.cluster_id, list.term
    )
}
