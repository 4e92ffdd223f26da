//! The network of a lab: a bridge in a namespace of its own ("outside"), and a namespace and a cable for each
//! host. The machine's own network is not changed.
//!
//! Faults are made on the outside end, where the hosts cannot see the cause: cables are pulled (the link goes
//! down), or nft drops packets on the bridge.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cmd::Cmd;

/// The name of the outside in [`Net::block`]. The S3 server and the clients run there.
pub const OUTSIDE: &str = "outside";

/// The network of one lab.
#[derive(Debug, Clone)]
pub struct Net {
    id: String,
    index: u8,
    hosts: u8,
}

/// What a cable does to packets, in each direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Packets lost, in percent.
    pub loss_percent: u8,
    /// Bits per second, in thousands; 0 for no limit.
    pub rate_kbit: u32,
    /// The delay of each packet. Needs `sch_netem` in the kernel.
    pub delay: Duration,
}

impl Net {
    pub(crate) fn new(id: &str, index: u8, hosts: u8) -> Self {
        Self {
            id: id.to_owned(),
            index,
            hosts,
        }
    }

    /// The network namespace of the outside.
    pub fn outside_namespace(&self) -> String {
        format!("{}-out", self.id)
    }

    /// The network namespace of a host.
    pub fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.id)
    }

    /// The address of the outside. Its host names are `s3` and `outside`.
    pub fn outside_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.index, 1)
    }

    /// The address of host `n<number>`.
    pub fn address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.index, 10 + number)
    }

    pub(crate) fn create(&self) -> Result<()> {
        let outside = self.outside_namespace();
        let mut script = format!(
            "ip netns add {outside}\n\
             ip -n {outside} link set lo up\n\
             ip -n {outside} link add br0 type bridge forward_delay 0\n\
             ip -n {outside} addr add {}/24 dev br0\n\
             ip -n {outside} link set br0 up\n",
            self.outside_address()
        );
        for number in 1..=self.hosts {
            let (port, address) = (format!("n{number}"), self.address(number));
            let inside = self.namespace(&port);
            let _ = write!(
                script,
                "ip netns add {inside}\n\
                 ip -n {outside} link add {port} type veth peer name eth0 netns {inside}\n\
                 ip -n {outside} link set {port} master br0 up\n\
                 ip -n {inside} link set lo up\n\
                 ip -n {inside} addr add {address}/24 dev eth0\n\
                 ip -n {inside} link set eth0 up\n"
            );
        }
        Cmd::new("sh")
            .args(["-ec", &script])
            .ok()
            .context("making the lab's network")?;
        self.nft(
            "table bridge lab {
               chain forward { type filter hook forward priority 0; }
               chain input { type filter hook input priority 0; }
               chain output { type filter hook output priority 0; }
             }",
        )
    }

    /// Takes the carrier of a host down.
    pub(crate) fn cut(&self, host: &str) -> Result<()> {
        self.link(host, "down")
    }

    /// Brings the carrier of a host up again.
    pub(crate) fn heal(&self, host: &str) -> Result<()> {
        self.link(host, "up")
    }

    /// Silently drops packets from `from` to `to`; either may be [`OUTSIDE`]. The other direction stays open.
    pub fn block(&self, from: &str, to: &str) -> Result<()> {
        self.nft(&rule(from, to, "drop"))
    }

    /// Silently drops packets from a host to this TCP port of other hosts. They can still reach the same port
    /// of this host.
    pub fn block_port(&self, from: &str, port: u16) -> Result<()> {
        self.nft(&format!(
            "add rule bridge lab forward iifname {from} ether type ip tcp dport {port} drop\n"
        ))
    }

    /// Silently drops packets between a host and the others to this TCP port, in both directions. Connections to
    /// it stall, whichever side has opened them.
    pub fn cut_port(&self, host: &str, port: u16) -> Result<()> {
        let rule = |side: &str| {
            format!("add rule bridge lab forward {side} {host} ether type ip tcp dport {port} drop\n")
        };
        self.nft(&format!("{}{}", rule("iifname"), rule("oifname")))
    }

    /// Begins to count what hosts send each other from and to this TCP port.
    pub fn meter(&self, port: u16) -> Result<()> {
        self.nft(&format!(
            "add counter bridge lab metered\n\
             add rule bridge lab forward ether type ip tcp sport {port} counter name metered\n\
             add rule bridge lab forward ether type ip tcp dport {port} counter name metered\n"
        ))
    }

    /// The bytes that were counted since [`Net::meter`], headers of IP and TCP included.
    pub fn metered(&self) -> Result<u64> {
        let list = ["list", "counter", "bridge", "lab", "metered"];
        let output = Cmd::new("ip")
            .args(["netns", "exec", &self.outside_namespace(), "nft"])
            .args(list)
            .ok()?;
        let mut words = output
            .stdout
            .split_whitespace()
            .skip_while(|word| *word != "bytes");
        let bytes = words.nth(1).context("nft prints a number of bytes")?;
        Ok(bytes.parse()?)
    }

    /// Hosts of different groups can no longer reach each other. All can still reach the outside.
    pub fn partition(&self, groups: &[&[&str]]) -> Result<()> {
        let mut rules = String::new();
        for (a, from) in groups.iter().enumerate() {
            for (_, to) in groups.iter().enumerate().filter(|(b, _)| a != *b) {
                for (x, y) in from.iter().flat_map(|x| to.iter().map(move |y| (x, y))) {
                    rules.push_str(&rule(x, y, "drop"));
                }
            }
        }
        self.nft(&rules)
    }

    /// Makes the cable of a host bad until [`crate::Lab::heal_all`].
    pub fn shape(&self, host: &str, shape: Shape) -> Result<()> {
        if shape.loss_percent > 0 {
            let lose = format!("numgen random mod 100 < {} drop", shape.loss_percent);
            let mut rules = format!("add rule bridge lab forward iifname {host} ether type ip {lose}\n");
            let _ = writeln!(
                rules,
                "add rule bridge lab forward oifname {host} ether type ip {lose}"
            );
            rules.push_str(&rule(host, OUTSIDE, &lose));
            rules.push_str(&rule(OUTSIDE, host, &lose));
            self.nft(&rules)?;
        }
        let qdisc = match (shape.rate_kbit, shape.delay) {
            (0, delay) if delay.is_zero() => return Ok(()),
            (0, delay) => format!("netem delay {}us", delay.as_micros()),
            (rate, delay) if delay.is_zero() => format!("tbf rate {rate}kbit burst 32k latency 400ms"),
            (rate, delay) => format!("netem delay {}us rate {rate}kbit", delay.as_micros()),
        };
        for (namespace, device) in [(self.outside_namespace(), host), (self.namespace(host), "eth0")] {
            let mut args = vec!["-n", &namespace, "qdisc", "replace", "dev", device, "root"];
            args.extend(qdisc.split(' '));
            let output = Cmd::new("tc").args(args).run()?;
            if output.stderr.contains("qdisc kind is unknown") {
                bail!("this kernel has no `{qdisc}` (CONFIG_NET_SCH_NETEM): use loss or rate only");
            }
            output.ok()?;
        }
        Ok(())
    }

    /// Undoes all faults except pulled cables.
    pub(crate) fn clear(&self) -> Result<()> {
        self.nft("flush table bridge lab")?;
        for host in (1..=self.hosts).map(|number| format!("n{number}")) {
            for (namespace, device) in [
                (self.outside_namespace(), host.as_str()),
                (self.namespace(&host), "eth0"),
            ] {
                // This fails if no qdisc was set.
                let _ = Cmd::new("tc")
                    .args(["-n", &namespace, "qdisc", "del", "dev", device, "root"])
                    .run();
            }
        }
        Ok(())
    }

    fn link(&self, host: &str, state: &str) -> Result<()> {
        Cmd::new("ip")
            .args(["-n", &self.outside_namespace(), "link", "set", host, state])
            .ok()?;
        Ok(())
    }

    fn nft(&self, rules: &str) -> Result<()> {
        Cmd::new("ip")
            .args(["netns", "exec", &self.outside_namespace(), "nft", "-f", "-"])
            .input(rules)
            .ok()
            .context("nft on the lab's bridge")?;
        Ok(())
    }
}

/// ARP is not affected, so that a one-way fault does not become a two-way one.
fn rule(from: &str, to: &str, verdict: &str) -> String {
    let verdict = format!("ether type ip {verdict}");
    if from == OUTSIDE {
        format!("add rule bridge lab output oifname {to} {verdict}\n")
    } else if to == OUTSIDE {
        format!("add rule bridge lab input iifname {from} {verdict}\n")
    } else {
        format!("add rule bridge lab forward iifname {from} oifname {to} {verdict}\n")
    }
}
