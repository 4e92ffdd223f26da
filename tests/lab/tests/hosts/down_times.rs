//! When each etcd was down, by its own log.

use std::collections::BTreeMap;

use etcd_agent_lab::{Host, Lab};

/// Now, as `journalctl --since` takes it.
pub(crate) fn now(lab: &Lab) -> String {
    let now = lab.hosts()[0].sh("date +@%s.%6N").unwrap().ok().unwrap();
    now.text().to_owned()
}

/// No two members were stopped at one moment since then. Returns how often each was.
pub(crate) fn one_at_a_time(lab: &Lab, since: &str) -> BTreeMap<String, usize> {
    let intervals = |host: &Host| {
        let of_host = down_between(host, since).into_iter();
        let name = host.name().to_owned();
        of_host
            .map(move |(from, to)| (from, to, name.clone()))
            .collect::<Vec<_>>()
    };
    let mut down: Vec<_> = lab.hosts().iter().flat_map(intervals).collect();
    down.sort_unstable();
    for pair in down.windows(2) {
        let [(_, up, one), (stopped, _, other)] = pair else {
            panic!("two intervals")
        };
        assert!(up <= stopped, "{other} went down before {one} was up: {down:?}");
    }
    let mut times = BTreeMap::new();
    for (_, _, name) in down {
        *times.entry(name).or_default() += 1;
    }
    times
}

/// When etcd got each SIGTERM, and when it served again. The hosts have one clock, and etcd writes all times in one
/// form, so that they can be compared as text.
fn down_between(host: &Host, since: &str) -> Vec<(String, String)> {
    host.exec(&["journalctl", "--sync"]).unwrap().ok().unwrap();
    let journal = host
        .journalctl(&["-u", "etcd", "--since", since, "-o", "cat"])
        .unwrap();
    let lines = journal.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((line["msg"].as_str()?.to_owned(), line["ts"].as_str()?.to_owned()))
    });
    let (mut down, mut stopped) = (Vec::new(), None);
    for (message, at) in lines {
        if message.contains("received signal; shutting down") {
            stopped.get_or_insert(at);
        } else if message.contains("ready to serve client requests")
            && let Some(from) = stopped.take()
        {
            down.push((from, at));
        }
    }
    assert_eq!(stopped, None, "{} does not serve:\n{journal}", host.name());
    down
}
