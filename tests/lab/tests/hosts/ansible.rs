//! `ansible-playbook` with the collection of `packaging/ansible` sets up three hosts over SSH, as
//! docs/configuration-management.md says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_agent_lab::{Cmd, Lab, Manager, Output, S3, molecule};

use crate::common::{agent, deb, etcd_pid, etcd_pids, healthy, wait_status};
use crate::managed::{
    assert_secret, assert_set_up, command, example, hosts, replaced, shown, sources, traces,
};
use crate::package::{next_version, version};

/// The control of SSH connections must not outlive the test for long.
const SETTINGS: [(&str, &str); 7] = [
    ("ANSIBLE_REMOTE_USER", "root"),
    ("ANSIBLE_HOST_KEY_CHECKING", "False"),
    ("ANSIBLE_PYTHON_INTERPRETER", "/usr/bin/python3"),
    ("ANSIBLE_PIPELINING", "True"),
    (
        "ANSIBLE_SSH_ARGS",
        "-o ControlMaster=auto -o ControlPersist=20s -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
    ),
    ("ANSIBLE_NOCOLOR", "1"),
    ("NO_COLOR", "1"),
];

/// A controller in the outside network of the lab.
struct Controller<'a> {
    lab: &'a Lab,
    dir: PathBuf,
    variables: String,
}

impl<'a> Controller<'a> {
    fn new(lab: &'a Lab, dir: PathBuf) -> Self {
        let program = Path::new("/usr/bin/ansible-playbook");
        assert!(program.exists(), "ansible-core is missing: make management-tools");
        let key = dir.join("ssh-key");
        Cmd::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .ok()
            .unwrap();
        let public = fs::read(key.with_extension("pub")).unwrap();
        lab.each(|host| host.write_file("/root/.ssh/authorized_keys", public.clone(), "0600", "root:root"))
            .unwrap();
        let inventory = example(lab, "yaml\n", "ansible_host: ");
        fs::write(dir.join("inventory.yml"), inventory).unwrap();
        std::os::unix::fs::symlink(sources().join("packaging"), dir.join("packaging")).unwrap();
        let region = format!("    region: {}\n", S3::REGION);
        let endpoint = lab.s3().endpoint();
        let server = format!("{region}    endpoint: {endpoint}\n    path_style: true\n");
        let variables = replaced(&example(lab, "yaml\n", "agent_config:"), &region, &server);
        let controller = Self { lab, dir, variables };
        controller.change(&[]);
        controller
            .run(&command("ansible-galaxy collection install"))
            .ok()
            .unwrap();
        controller
    }

    /// Writes the variables of the page with these changes.
    fn change(&self, changes: &[(&str, &str)]) {
        let text = changes.iter().fold(self.variables.clone(), |text, (old, new)| {
            replaced(&text, old, new)
        });
        let dir = self.dir.join("group_vars");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("etcd.yml"), text).unwrap();
    }

    /// Runs a step of the collection's scenario.
    fn molecule(&self, step: &str) -> String {
        let extensions = sources().join("packaging/ansible/extensions");
        let python = molecule().unwrap();
        let line = format!(
            "cd {} && {} -m molecule {step}",
            extensions.display(),
            python.display()
        );
        self.run(&line).ok().unwrap().stdout
    }

    /// Runs a command line of the page.
    fn run(&self, line: &str) -> Output {
        let output = self
            .lab
            .outside(|| {
                let shell = Cmd::new("sh")
                    .args(["-c", &format!("{line} 2>&1")])
                    .dir(&self.dir)
                    .env("HOME", &self.dir)
                    .env("ANSIBLE_PRIVATE_KEY_FILE", self.dir.join("ssh-key"))
                    .env("MOLECULE_HOSTS", &self.dir);
                let set = SETTINGS
                    .iter()
                    .fold(shell, |shell, (name, value)| shell.env(name, value));
                set.deadline(Duration::from_mins(8)).run()
            })
            .unwrap();
        eprintln!("{:.0} s: {line}", output.took.as_secs_f64());
        output
    }

    /// Runs it, requires success, and returns the number of changes on each host, and the output.
    fn changes(&self, line: &str) -> (BTreeMap<String, u32>, String) {
        let output = self.run(line).ok().unwrap().stdout;
        let (_, recap) = output.rsplit_once("PLAY RECAP").unwrap();
        let changes = recap.lines().filter_map(|line| {
            let (host, counts) = line.split_once(':')?;
            let changed = counts.split("changed=").nth(1)?.split(' ').next()?;
            Some((host.trim().to_owned(), changed.parse().ok()?))
        });
        let changes: BTreeMap<String, u32> = changes.collect();
        assert!(
            changes.keys().all(|host| self.lab.host_named(host).is_ok()),
            "{output}"
        );
        (changes, output)
    }
}

/// `--host` and `status --all` from n1, over real SSH.
fn other_hosts_answer_over_ssh(control: &Controller) {
    let (n1, n3) = (control.lab.host(1).unwrap(), control.lab.host(3).unwrap());
    let client = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n";
    let clusters = format!(
        "[clusters]\nlab = [\"nobody@{0}\", \"{0}\"]\nvoid = [\"nobody@{0}\"]\n",
        n3.address()
    );
    let key = fs::read(control.dir.join("ssh-key")).unwrap();
    let mine = |path: &str, content: Vec<u8>| n1.write_file(path, content, "0600", "root:root").unwrap();
    mine("/root/.ssh/id_ed25519", key);
    mine("/root/.ssh/config", client.into());
    mine("/root/clusters.toml", clusters.into());
    let there = agent(n1, &["--host", "n2", "status", "-o", "json"]).ok().unwrap();
    let there: serde_json::Value = serde_json::from_str(&there.stdout).unwrap();
    assert_eq!(
        (&there["health"], &there["node"]["node"]),
        (&"healthy".into(), &"n2".into())
    );
    let word = agent(n1, &["--host", "n2", "ok-to-stop", "$(id) 'x'"]);
    assert!(
        word.code == 2 && word.stderr.contains("$(id) 'x'"),
        "a shell read it: {}",
        word.stderr
    );
    let unknown = agent(n1, &["--host", "n9", "status"]);
    assert!(
        unknown.code == 2 && unknown.stderr.contains("its nodes are: n1, n2, n3"),
        "{}",
        unknown.stderr
    );
    let all = agent(n1, &["status", "--all", "--clusters", "/root/clusters.toml"]);
    assert_eq!(all.code, 3, "{}{}", all.stdout, all.stderr);
    let line = |name: &str| {
        all.stdout
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("lab ").contains("healthy") && line("lab ").contains("3/3"),
        "{}",
        all.stdout
    );
    assert!(line("void ").contains("unreachable"), "{}", all.stdout);
}

#[test]
fn ansible_sets_up_three_hosts_changes_upgrades_and_reboots_them() {
    let (lab, dir) = hosts("ansible", Manager::Ansible);
    let control = Controller::new(&lab, dir.clone());
    let install = command("etcd_agent.etcd_agent.install").replace(" --check --diff", "");
    let check = command("etcd_agent.etcd_agent.install --check --diff");
    let at_once = |line: &str| format!("{line} -e agent_serial=100%");
    let distributions = etcd_pids(lab.hosts());

    let (predicted, checked) = control.changes(&format!("{check} --limit n1"));
    assert!(predicted["n1"] > 5, "{checked}");
    let program = lab.host(1).unwrap().disk().join("usr/bin/etcd-agent");
    assert!(!program.exists(), "--check installed it");
    assert_eq!(etcd_pids(lab.hosts()), distributions);

    let made = control.molecule("converge -- --diff -vvv");
    assert_set_up(&lab);
    other_hosts_answer_over_ssh(&control);
    assert_secret(&dir, &format!("{checked}{made}"));
    let before = traces(&lab);
    let again = control.molecule("idempotence");
    assert!(again.contains("Idempotence completed successfully"), "{again}");
    assert_eq!(traces(&lab), before, "the second run changed something");
    control.molecule("verify");

    a_change_is_predicted_and_made(&control, &at_once(&check), &at_once(&install));
    a_file_that_is_there_is_put_in_force(&control, &at_once(&install));
    bad_values_change_nothing(&control, &check, &install);
    the_package_is_upgraded(&control, &dir);
    a_host_reboots_under_the_lock(&control);
    drop(control);
    lab.passed();
}

fn a_change_is_predicted_and_made(control: &Controller<'_>, check: &str, install: &str) {
    control.change(&[("interval: 30m", "interval: 20m")]);
    let lab = control.lab;
    let before = traces(lab);
    let (predicted, output) = control.changes(check);
    assert!(predicted.values().all(|changes| *changes == 1), "{output}");
    assert_eq!(output.matches("+interval = \"20m\"").count(), 3, "{output}");
    assert_eq!(traces(lab), before, "--check changed something");
    let pids = etcd_pids(lab.hosts());
    // The file, and the reload.
    let (changes, output) = control.changes(install);
    assert!(changes.values().all(|changes| *changes == 2), "{output}");
    for host in lab.hosts() {
        assert_eq!(shown(host, "backup.interval"), "\"20m\"");
        wait_status(host, 0);
    }
    assert_eq!(etcd_pids(lab.hosts()), pids);
}

/// An earlier run has written the file and failed before the reload.
fn a_file_that_is_there_is_put_in_force(control: &Controller<'_>, install: &str) {
    for host in control.lab.hosts() {
        host.sh("mkdir -p /etc/etcd-agent/config.d && touch /etc/etcd-agent/config.d/50-new.toml")
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(agent(host, &["config", "is-loaded"]).code, 1);
    }
    let (changes, output) = control.changes(install);
    assert!(changes.values().all(|changes| *changes == 1), "{output}");
    for host in control.lab.hosts() {
        agent(host, &["config", "is-loaded"]).ok().unwrap();
        wait_status(host, 0);
    }
}

/// A bad value next to a new key of TLS: neither is written, and the next host is not tried.
fn bad_values_change_nothing(control: &Controller<'_>, check: &str, install: &str) {
    let other_key = ("'-agent.key'", "'-client.key'");
    let before = traces(control.lab);
    for (old, new, says) in [
        ("name: prod", "nmae: prod", "cluster.nmae: no such key"),
        ("daily: 14", "daily: two weeks", "backup.retention.daily: "),
        (
            "daily: 14",
            "daily:",
            "backup.retention.daily: null cannot be written as TOML",
        ),
        ("agent_tls:\n", "agent_tls:\n  ftp: {}\n", "ftp"),
    ] {
        control.change(&[("interval: 30m", "interval: 20m"), other_key, (old, new)]);
        refused(control, install, says);
        assert_eq!(traces(control.lab), before, "{says}: something was changed");
    }
    control.change(&[("name: prod", "nmae: prod")]);
    refused(control, check, "cluster.nmae: no such key");
    control.change(&[("interval: 30m", "interval: 20m")]);
}

fn refused(control: &Controller<'_>, line: &str, says: &str) {
    let failed = control.run(line);
    assert_eq!(failed.code, 2, "{says}: {}", failed.stdout);
    assert!(failed.stdout.contains(says), "{says}: {}", failed.stdout);
    let (_, recap) = failed.stdout.rsplit_once("PLAY RECAP").unwrap();
    assert!(!recap.contains("n2"), "n2 was tried: {}", failed.stdout);
}

fn the_package_is_upgraded(control: &Controller<'_>, dir: &Path) {
    let lab = control.lab;
    let (before, pids) = (version(lab.host(1).unwrap()), etcd_pids(lab.hosts()));
    fs::copy(next_version(&deb(), &lab.dir()), dir.join("etcd-agent.deb")).unwrap();
    control.changes(&command("etcd_agent.etcd_agent.upgrade"));
    for host in lab.hosts() {
        assert_eq!(version(host), format!("{before}+next1"));
    }
    healthy(lab);
    assert_eq!(
        etcd_pids(lab.hosts()),
        pids,
        "an upgrade of the agent restarted etcd"
    );
}

fn a_host_reboots_under_the_lock(control: &Controller<'_>) {
    let lab = control.lab;
    let pids = etcd_pids(lab.hosts());
    let n2 = lab.host(2).unwrap();
    // The boot ID of a container is that of the kernel.
    let reboot = format!(
        "{} --limit n2 -e 'agent_boot_time_command=\"systemctl show --value -p UserspaceTimestampMonotonic\"'",
        command("etcd_agent.etcd_agent.reboot")
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // systemd-nspawn ends when its host reboots.
        let power = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if !n2.is_on() {
                    return n2.boot().is_ok();
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            false
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| control.run(&reboot)));
        over.store(true, Ordering::Relaxed);
        let rebooted = power.join().unwrap();
        let output = done.unwrap().ok().unwrap().stdout;
        assert!(rebooted, "n2 was not rebooted: {output}");
    });
    healthy(lab);
    let status = agent(n2, &["status"]).stdout;
    assert!(!status.contains("Reboot lock"), "{status}");
    for host in lab.hosts() {
        let same = etcd_pid(host) == pids[host.name()];
        assert!(
            host.name() == "n2" || same,
            "etcd on {} was restarted",
            host.name()
        );
    }
}
