//! The same check for both sides: are all members present and voting, and does each answer a linearizable
//! read?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etcd_agent_lab::{Cmd, Host, Lab, Random};
use etcd_client::{Certificate, Client, ConnectOptions, Identity, PutOptions, TlsOptions};
use tokio::time::{sleep, timeout};

const EVERY: Duration = Duration::from_millis(20);
/// A member without a leader delays a read, so it is asked again soon.
const TRY: Duration = Duration::from_millis(150);

/// A member: its name and ID.
pub(crate) type Members = Vec<(String, u64)>;

/// Runs a future on a thread in the outside namespace.
pub(crate) fn outside<T, F, W>(lab: &Lab, work: W) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
    W: FnOnce() -> F + Send,
{
    lab.outside(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(work())
    })
}

/// A client of one member only. It connects on first use, and reconnects if necessary.
pub(crate) async fn client(lab: &Lab, host: &Host) -> Result<Client> {
    let (cert, key) = lab.client_files()?;
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(lab.ca()?.cert()))
        .identity(Identity::from_pem(std::fs::read(cert)?, std::fs::read(key)?));
    let options = ConnectOptions::new()
        .with_connect_timeout(Duration::from_secs(1))
        .with_tls(tls);
    Ok(Client::connect([lab.client_url(host)], Some(options)).await?)
}

/// The member list of one member, after it has answered a linearizable read.
async fn ask(mut client: Client) -> Result<Members> {
    timeout(TRY, async {
        client.get("health", None).await?;
        let list = client.member_list().await?;
        let mut members = Vec::new();
        for member in list.members() {
            if member.is_learner() || member.name().is_empty() {
                bail!("{:?} does not vote yet", member.name());
            }
            members.push((member.name().to_owned(), member.id()));
        }
        members.sort();
        Ok(members)
    })
    .await
    .context("no answer")?
}

/// Waits until all hosts' members are voters and healthy, and the member `gone` is not in the list.
pub(crate) fn healthy(lab: &Lab, gone: Option<u64>, patience: Duration) -> Result<Members> {
    let hosts: Vec<&Host> = lab.hosts().iter().collect();
    healthy_on(lab, &hosts, gone, patience)
}

/// Waits until exactly these hosts' members are voters and healthy, and the member `gone` is not in the list.
pub(crate) fn healthy_on(
    lab: &Lab,
    hosts: &[&Host],
    gone: Option<u64>,
    patience: Duration,
) -> Result<Members> {
    agreed(lab, hosts, hosts.len(), gone, patience)
}

/// Waits until the others list as many voters as the lab has hosts, with one on `host` in place of the member
/// `gone`. That one need not answer clients yet.
pub(crate) fn votes(lab: &Lab, host: &Host, gone: u64, patience: Duration) -> Result<Members> {
    let hosts = lab.hosts().iter();
    let others: Vec<&Host> = hosts.filter(|other| other.name() != host.name()).collect();
    agreed(lab, &others, lab.hosts().len(), Some(gone), patience)
}

/// Waits until each of `hosts` answers a linearizable read and all list the same voters, `voters` in number
/// and without `gone`.
fn agreed(
    lab: &Lab,
    hosts: &[&Host],
    voters: usize,
    gone: Option<u64>,
    patience: Duration,
) -> Result<Members> {
    outside(lab, || async {
        let start = Instant::now();
        let mut clients = Vec::new();
        for host in hosts {
            clients.push(client(lab, host).await?);
        }
        loop {
            let round = Instant::now();
            let asked: Vec<_> = clients
                .iter()
                .map(|client| tokio::spawn(ask(client.clone())))
                .collect();
            let mut answers = Vec::new();
            let mut error = None;
            for answer in asked {
                match answer.await? {
                    Ok(members) => answers.push(members),
                    Err(e) => error = Some(e),
                }
            }
            let first = answers.first().cloned().unwrap_or_default();
            let new = first.iter().all(|(_, id)| Some(*id) != gone);
            if error.is_none() && new && first.len() == voters && answers.iter().all(|a| *a == first) {
                return Ok(first);
            }
            if start.elapsed() > patience {
                let why = error.map_or_else(String::new, |error| format!("{error:#}"));
                bail!("not healthy after {patience:?}: {answers:?} {why}");
            }
            sleep(EVERY.saturating_sub(round.elapsed())).await;
        }
    })
}

/// The CPU time of this machine's processes since its boot, including the kernel's work for them, and without
/// the time that a hypervisor gave to others (`proc_stat(5)`).
pub(crate) fn machine_busy() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let mut ticks = Vec::new();
    for field in stat.lines().next().unwrap_or_default().split_whitespace().skip(1) {
        ticks.push(field.parse::<u64>().context("/proc/stat")?);
    }
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else {
        bail!("/proc/stat begins with {stat:.80}");
    };
    Ok(Duration::from_millis(
        (user + nice + system + irq + softirq) * 1000 / u64::from(ticks_in_a_second()?),
    ))
}

/// The unit of times in `/proc`.
pub(crate) fn ticks_in_a_second() -> Result<u32> {
    Ok(Cmd::new("getconf").arg("CLK_TCK").ok()?.text().parse()?)
}

/// The content that a database is filled with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    /// Values of 64 KiB that do not compress.
    Noise,
    /// Values of 8 KiB like those of Kubernetes: the same fields repeated, with different names, IDs, hashes
    /// and times.
    Objects,
}

impl Values {
    fn bytes(self) -> usize {
        match self {
            Self::Noise => 64 * 1024,
            Self::Objects => 8 * 1024,
        }
    }

    fn make(self, random: &mut Random) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.bytes() + 4096);
        while value.len() < self.bytes() {
            match self {
                Self::Noise => value.extend_from_slice(&random.number().to_le_bytes()),
                Self::Objects => value.extend_from_slice(pod(random).as_bytes()),
            }
        }
        value.truncate(self.bytes());
        value
    }
}

/// 64 hexadecimal digits.
fn hash(random: &mut Random) -> String {
    [(); 4].map(|()| format!("{:016x}", random.number())).concat()
}

fn uid(random: &mut Random) -> String {
    let hash = hash(random);
    format!(
        "{}-{}-4{}-a{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[12..15],
        &hash[15..18],
        &hash[18..30]
    )
}

fn pod(random: &mut Random) -> String {
    let (digits, number) = (hash(random), random.number() % 1000);
    let (app, suffix) = (&digits[..9], &digits[9..14]);
    let [uid, owner] = [(); 2].map(|()| uid(random));
    let [image, container] = [(); 2].map(|()| hash(random));
    let time = format!(
        "2026-03-{:02}T{:02}:{:02}:{:02}Z",
        1 + number % 28,
        number % 24,
        number % 60,
        number % 59
    );
    let address = format!("10.{}.{}.{}", number % 7, number % 251, number % 241);
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"service-{number}-{app}-{suffix}","generateName":
"service-{number}-{app}-","namespace":"team-{}","uid":"{uid}","creationTimestamp":"{time}","labels":{{"app":"service-{number}",
"pod-template-hash":"{app}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{number}-{app}","uid":
"{owner}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update",
"apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},
"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{
"k:{{\"name\":\"main\"}}":{{".":{{}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:resources":{{}}}}}},"f:dnsPolicy":{{}},
"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}}}}}}}}]}},"spec":{{"containers":[{{"name":"main","image":
"registry.example.com/team/service-{number}@sha256:{image}","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}},
"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","dnsPolicy":"ClusterFirst",
"serviceAccountName":"default","nodeName":"node-{}","schedulerName":"default-scheduler"}},"status":{{"phase":"Running","conditions":[
{{"type":"Initialized","status":"True","lastTransitionTime":"{time}"}},{{"type":"Ready","status":"True","lastTransitionTime":"{time}"}},
{{"type":"PodScheduled","status":"True","lastTransitionTime":"{time}"}}],"podIP":"{address}","containerStatuses":[{{"name":"main","ready":
true,"restartCount":0,"containerID":"containerd://{container}","started":true}}]}}}}"#,
        number % 40,
        number % 90
    )
}

/// Writes until the database of the first host has this size.
pub(crate) fn fill(lab: &Lab, bytes: u64, values: Values) -> Result<()> {
    const WRITERS: u64 = 16;
    let host = lab.host(1)?;
    outside(lab, || async {
        let mut seed = 0;
        let mut from = 0;
        loop {
            let size = client(lab, host).await?.status().await?.db_size();
            let missing = bytes.saturating_sub(u64::try_from(size)?);
            if missing == 0 {
                return Ok(());
            }
            let each = (missing / u64::try_from(values.bytes())? / WRITERS).max(1);
            let mut writers = Vec::new();
            for _ in 0..WRITERS {
                let mut client = client(lab, host).await?;
                let first = from;
                from += each;
                seed += 1;
                let mut random = Random::new(seed);
                writers.push(tokio::spawn(async move {
                    for number in first..first + each {
                        let value = values.make(&mut random);
                        client
                            .put(format!("bench/{number:08}"), value, None::<PutOptions>)
                            .await?;
                    }
                    anyhow::Ok(())
                }));
            }
            for writer in writers {
                writer.await??;
            }
        }
    })
}
