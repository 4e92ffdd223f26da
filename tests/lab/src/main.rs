//! `lab`: the lab for manual use. `lab up -n 3` leaves hosts running, the other verbs act on them.
#![allow(clippy::print_stdout)]

mod demo;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use etcd_agent_lab::{ETCD_DEFAULT, Host, Lab, Manager, Robust, S3, Suite, agent_rpm, system_rpm};

const USAGE: &str = "\
lab: real systemd hosts with etcd on this machine, as root

  lab prepare [demo]             make what all labs need (packages, Debian trees, etcd, S3 server); only what the demo
                                 needs
  lab up [-n 3] [--suite trixie|bookworm] [--etcd 3.5.35|debian] [--agent | --deb FILE] [--plain] [--fedora]
                                 boot hosts that stay; with --agent (the package that `make deb` built) or --deb
                                 the package is installed and a cluster formed; with --fedora as well the hosts are
                                 shaped like Fedora, and RPMs of it are in /root
  lab demo                       three hosts, a cluster, a backup, a lost member healed; nothing is left behind
  lab robust [--duration 60] [--seed 1] [--ops 12] [--hosts 5] [--etcd 3.6.16,3.7.3] [--traffic kubernetes,etcd]
                                 etcd's own robustness traffic and validators while the agents work, a round for each
                                 pair of etcd and traffic
  lab list                       the labs that are up
  lab enter HOST                 a shell in a host
  lab exec HOST -- CMD...        a command in a host
  lab ctl -- ARGS...             etcdctl from outside the hosts, with a client certificate
  lab cut HOST | heal HOST       pull its network cable, plug it in again
  lab kill HOST | boot HOST      take its power away, switch it on
  lab wipe HOST                  stop its etcd and remove the data, as after a lost disk
  lab lintian trixie|bookworm FILE
                                 lintian of that Debian on a package, also on a source package (.dsc)
  lab down [--all]               end the lab; all of them
  lab sweep                      end labs whose process is dead

  LAB=lab0 chooses one when several are up.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["prepare"] => etcd_agent_lab::prepare()?,
        ["prepare", "demo"] => etcd_agent_lab::prepare_demo()?,
        ["up", options @ ..] => up(options)?,
        ["demo"] => {
            etcd_agent_lab::prepare_demo()?;
            demo::run(&etcd_agent_lab::built_deb()?)?;
        }
        ["robust", options @ ..] => robust(options)?,
        ["lintian", suite, package] => {
            return Ok(show(&etcd_agent_lab::lintian(
                suite.parse()?,
                Path::new(package),
            )?));
        }
        ["list"] => Lab::kept().iter().for_each(|(id, name)| println!("{id} {name}")),
        ["enter", name] => return enter(current()?.host_named(name)?),
        ["exec", name, "--", argv @ ..] => {
            return Ok(show(
                &current()?
                    .host_named(name)?
                    .exec_for(std::time::Duration::from_mins(30), argv)?,
            ));
        }
        ["ctl", "--", argv @ ..] => {
            let lab = current()?;
            let hosts: Vec<&Host> = lab.hosts().iter().filter(|host| host.is_on()).collect();
            return Ok(show(&lab.etcdctl(&hosts, argv)?));
        }
        ["cut", name] => current()?.host_named(name)?.cut()?,
        ["heal", name] => current()?.host_named(name)?.heal()?,
        ["kill", name] => current()?.host_named(name)?.kill()?,
        ["boot", name] => drop(current()?.host_named(name)?.boot()?),
        ["wipe", name] => {
            let lab = current()?;
            let host = lab.host_named(name)?;
            if host.is_on() && host.main_pid("etcd")?.is_some() {
                host.kill_process("etcd", "KILL")?;
            }
            host.wipe("/var/lib/etcd/default")?;
        }
        ["down"] => current()?.end()?,
        ["down", "--all"] => {
            for (id, _) in Lab::kept() {
                Lab::attach(&id)?.end()?;
            }
        }
        ["sweep"] => etcd_agent_lab::sweep()?
            .iter()
            .for_each(|id| println!("swept {id}")),
        // For the lab's own tests: a lab that ends with its process.
        ["hold"] => {
            let lab = Lab::builder("hold").boot()?;
            println!("{}", lab.id());
            std::thread::sleep(std::time::Duration::from_mins(5));
        }
        ["help" | "--help" | "-h"] => println!("{USAGE}"),
        _ => bail!("not a command of the lab\n\n{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn robust(options: &[&str]) -> Result<()> {
    let (mut duration, mut seed, mut operations, mut hosts) = (60, 1, 12, 5);
    let (mut versions, mut traffics) = ("3.6.16,3.7.3", "kubernetes,etcd");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = *options
            .next()
            .with_context(|| format!("{option} wants a value"))?;
        match *option {
            "--duration" => duration = value.parse().context("--duration wants seconds")?,
            "--seed" => seed = value.parse().context("--seed wants a number")?,
            "--ops" => operations = value.parse().context("--ops wants a number")?,
            "--hosts" => hosts = value.parse().context("--hosts wants a number")?,
            "--etcd" => versions = value,
            "--traffic" => traffics = value,
            other => bail!("unknown option `{other}`\n\n{USAGE}"),
        }
    }
    etcd_agent_lab::prepare()?;
    let deb = etcd_agent_lab::built_deb()?;
    for etcd in versions.split(',') {
        for traffic in traffics.split(',') {
            println!("etcd {etcd}, {traffic} traffic, {duration} s, seed {seed}");
            let round = Robust {
                etcd: etcd.to_owned(),
                traffic: traffic.to_owned(),
                duration: std::time::Duration::from_secs(duration),
                seed,
                operations,
                hosts,
            };
            round.run(&deb)?;
        }
    }
    Ok(())
}

fn up(options: &[&str]) -> Result<()> {
    let (mut hosts, mut suite, mut etcd, mut deb) = (3, Suite::Trixie, ETCD_DEFAULT, None);
    let (mut plain, mut fedora) = (false, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().with_context(|| format!("{option} wants a value"));
        match *option {
            "-n" => hosts = value()?.parse().context("-n wants a number")?,
            "--suite" => suite = value()?.parse()?,
            "--etcd" => etcd = value()?,
            "--deb" => deb = Some(PathBuf::from(value()?)),
            "--agent" => deb = Some(etcd_agent_lab::built_deb()?),
            "--plain" => plain = true,
            "--fedora" => fedora = true,
            other => bail!("unknown option `{other}`\n\n{USAGE}"),
        }
    }
    etcd_agent_lab::prepare()?;
    let mut builder = Lab::builder("by-hand").hosts(hosts).suite(suite).keep();
    builder = match etcd {
        "debian" => builder.etcd_of_debian(),
        version => builder.etcd(version),
    };
    if plain {
        builder = builder.plain();
    }
    if fedora {
        builder = builder.managed_by(Manager::Dnf);
    }
    let lab = builder.boot()?;
    println!("{} is up: {hosts} hosts on {suite}, etcd {etcd}", lab.id());
    lab.s3().start()?;
    if fedora {
        push_rpms(&lab, &deb.context("--fedora wants --agent or --deb FILE")?)?;
    } else if let Some(deb) = deb {
        let took = lab
            .install(&deb)
            .and_then(|()| lab.form())
            .with_context(|| format!("{} stays up for inspection; `lab down` ends it", lab.id()))?;
        println!(
            "{hosts} healthy members {:.1} s after the agents were started",
            took.as_secs_f64()
        );
    }
    let program = std::env::current_exe()?.display().to_string();
    for host in lab.hosts() {
        println!(
            "{:<4} {:<12} {program} enter {}",
            host.name(),
            host.address(),
            host.name()
        );
    }
    println!(
        "S3   {}  bucket {}, objects in {}",
        lab.s3().endpoint(),
        S3::BUCKET,
        lab.s3().dir().display()
    );
    println!("\ncut one off    {program} cut n1     (heal n1)");
    println!("lose a disk    {program} wipe n1");
    println!("lose power     {program} kill n1    (boot n1)");
    println!("etcdctl        {program} ctl -- member list -w table");
    println!("end it all     make lab-down");
    Ok(())
}

/// Copies the agent's RPM, and the one that stands for the distribution, to all hosts.
fn push_rpms(lab: &Lab, deb: &Path) -> Result<()> {
    let agent = agent_rpm(deb, &lab.dir(), 1)?;
    let system = system_rpm(&agent, &lab.dir())?;
    lab.each(|host| {
        [&agent, &system].into_iter().try_for_each(|rpm| {
            let name = rpm.file_name().context("the name of an RPM")?;
            host.push(rpm, &format!("/root/{}", name.to_string_lossy()))
        })
    })
}

/// The selected lab: `$LAB`, or the only one that is up.
fn current() -> Result<Lab> {
    if let Ok(id) = std::env::var("LAB") {
        return Lab::attach(&id);
    }
    match Lab::kept().as_slice() {
        [] => bail!("no lab is up: `lab up` boots one"),
        [(id, _)] => Lab::attach(id),
        several => {
            let ids: Vec<_> = several.iter().map(|(id, _)| id.as_str()).collect();
            bail!(
                "several labs are up ({}): choose one with LAB={}",
                ids.join(", "),
                ids.join(" or LAB=")
            )
        }
    }
}

fn enter(host: &Host) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let argv = host.enter_command()?;
    let (program, rest) = argv.split_first().context("a command")?;
    let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    let shell = ["bash".to_owned(), "-l".to_owned()];
    let error = std::process::Command::new(program)
        .args(rest)
        .arg(format!("TERM={term}"))
        .args(shell)
        .exec();
    Err(error).context("entering the host")
}

fn show(output: &etcd_agent_lab::Output) -> ExitCode {
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    ExitCode::from(u8::try_from(output.code).unwrap_or(1))
}
