//! Shared by the tests of Ansible and Puppet: the page's examples with the lab's addresses, the guide's
//! certificates, and what holds on hosts that one of the two has set up.

use std::fs;
use std::path::{Path, PathBuf};

use etcd_agent_lab::{Cmd, Host, Lab, Manager};

use crate::common::{archived, block, deb, etcd_pids, healthy, member_ids};

const PAGE: &str = include_str!("../../../../docs/configuration-management.md");
const NODES: [&str; 3] = ["n1=10.0.0.1", "n2=10.0.0.2", "n3=10.0.0.3"];

/// The root of the sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Three hosts as the distribution leaves them: an empty etcd runs, and there is no agent. The second value is
/// a directory with the certificates of the guide in `pki`, and the package.
pub(crate) fn hosts(name: &str, manager: Manager) -> (Lab, PathBuf) {
    let lab = Lab::builder(name).hosts(3).managed_by(manager).boot().unwrap();
    lab.s3().start().unwrap();
    lab.each(|host| host.systemctl(&["start", "etcd"])?.ok().map(drop))
        .unwrap();
    let dir = lab.dir().join("managed");
    let pki = dir.join("pki");
    fs::create_dir_all(&pki).unwrap();
    Cmd::new(sources().join("packaging/make-certificates"))
        .args(NODES.map(|node| with_addresses(&lab, node)))
        .dir(&pki)
        .ok()
        .unwrap();
    // The lab's own authority for clients, so that the lab's clients reach etcd.
    let clients = lab.ca().unwrap();
    for host in lab.hosts() {
        let pair = clients.issue_for(host).unwrap();
        pair.save(&pki, &format!("{}-client", host.name())).unwrap();
    }
    let agents = fs::read_to_string(pki.join("agent-ca.crt")).unwrap();
    fs::write(
        pki.join("etcd-clients.crt"),
        format!("{}{agents}", clients.cert()),
    )
    .unwrap();
    fs::write(pki.join("aws-credentials"), lab.s3().credentials_file()).unwrap();
    fs::copy(deb(), dir.join("etcd-agent.deb")).unwrap();
    (lab, dir)
}

/// The block of the page, with the lab's addresses.
pub(crate) fn example(lab: &Lab, fence: &str, has: &str) -> String {
    with_addresses(lab, &block(PAGE, fence, has))
}

/// The page's command line that contains this text.
pub(crate) fn command(has: &str) -> String {
    let found = block(PAGE, "\n", has);
    let line = found.lines().find(|line| line.contains(has)).unwrap();
    line.to_owned()
}

/// The text with the addresses of the lab's first three hosts.
pub(crate) fn with_addresses(lab: &Lab, text: &str) -> String {
    (1..=3).fold(text.to_owned(), |text, number| {
        let address = lab.host(number).unwrap().address().to_string();
        text.replace(&format!("10.0.0.{number}"), &address)
    })
}

/// Replaces text that must be there.
pub(crate) fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "no {old:?} in:\n{text}");
    text.replace(old, new)
}

/// Asserts that no secret is in the output of a tool.
pub(crate) fn assert_secret(dir: &Path, output: &str) {
    let mut keys = 0;
    for entry in fs::read_dir(dir.join("pki")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "key") {
            let key = fs::read_to_string(&path).unwrap();
            let secret = key.lines().nth(1).unwrap();
            assert!(
                !output.contains(secret),
                "{} was shown:\n{output}",
                path.display()
            );
            keys += 1;
        }
    }
    assert_eq!(
        keys, 12,
        "three authorities, and three pairs for each of three nodes"
    );
    assert!(
        !output.contains(etcd_agent_lab::S3::SECRET_KEY),
        "the credentials were shown:\n{output}"
    );
}

const FILES: &str = "\
/etc/etcd-agent/aws-credentials root:etcd-agent 640
/etc/etcd-agent/config.toml root:etcd-agent 640
/etc/etcd-agent/tls/ca.crt root:root 644
/etc/etcd-agent/tls/node.crt root:root 644
/etc/etcd-agent/tls/node.key root:etcd-agent 640
/etc/etcd/peer-tls/ca.crt root:root 644
/etc/etcd/peer-tls/node.crt root:root 644
/etc/etcd/peer-tls/node.key root:etcd 640
/etc/etcd/tls/ca.crt root:root 644
/etc/etcd/tls/node.crt root:root 644
/etc/etcd/tls/node.key root:etcd 640";

/// One healthy cluster of three, of which each host has its files, and no empty etcd is left.
pub(crate) fn assert_set_up(lab: &Lab) {
    healthy(lab);
    let n1 = lab.host(1).unwrap();
    let (_, members) = member_ids(lab, n1).unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    for host in lab.hosts() {
        let files = host
            .sh("find /etc/etcd-agent /etc/etcd/tls /etc/etcd/peer-tls -type f -printf '%p %u:%g %m\\n' | sort")
            .unwrap();
        assert_eq!(files.text(), FILES, "{}", host.name());
        assert_eq!(archived(host).len(), 1, "the empty etcd of {}", host.name());
        for unit in ["etcd", "etcd-agent"] {
            let state = host.unit_property(unit, "UnitFileState").unwrap();
            assert_eq!(state, "enabled", "{unit} on {}", host.name());
        }
    }
}

/// What a run that changes nothing leaves as it is: etcd's processes, and the content and the times of all
/// files.
pub(crate) fn traces(lab: &Lab) -> Vec<String> {
    let mut found: Vec<String> = lab
        .hosts()
        .iter()
        .map(|host| {
            host.sh(
                "find /etc/etcd-agent /etc/etcd /etc/systemd/system -type f -exec sha256sum {} + \
                 -printf '%p %T@ %m\\n' | sort; systemctl show -P MainPID etcd-agent",
            )
            .unwrap()
            .ok()
            .unwrap()
            .stdout
        })
        .collect();
    found.push(format!("{:?}", etcd_pids(lab.hosts())));
    found
}

/// The value in force of a field, in the words of `config show`.
pub(crate) fn shown(host: &Host, field: &str) -> String {
    let text = crate::common::agent(host, &["config", "show"])
        .ok()
        .unwrap()
        .stdout;
    let line = text.lines().find(|line| line.starts_with(&format!("{field} = ")));
    let line = line.unwrap_or_else(|| panic!("no {field} in {text}"));
    let value = line.split(" = ").nth(1).unwrap();
    value.split("  #").next().unwrap().trim().to_owned()
}
