//! Which etcd process runs, with which settings, and whether it needs a restart.

use serde::{Deserialize, Serialize};

use super::{EtcdVersion, Fact, NodeName, NodeOrder, Transport};

/// The etcd that `etcd.service` starts while no version is selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseEtcd {
    /// Distinguishes this file from one that replaces it.
    pub file: String,
    /// What it reports; `None` if it reports no version.
    pub version: Option<EtcdVersion>,
}

/// An agent's record of its etcd process. A process is identified by boot and PID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdRun {
    /// The digest of the last written settings (`InForce::settings_digest`).
    #[serde(default)]
    pub written: Option<String>,
    /// The last seen process.
    #[serde(default)]
    pub process: Option<String>,
    /// The digest of the settings that it was started with; `None` if unknown.
    #[serde(default)]
    pub settings: Option<String>,
    /// The file of the binary of `etcd.service` ([`BaseEtcd::file`]) from which the process was started; `None` if
    /// that is not known: the file was replaced, or not looked at before the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// That file when it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_base: Option<String>,
    /// The version of the etcd that served here last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<EtcdVersion>,
    /// The version whose format its data had then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<EtcdVersion>,
    /// Over what the process speaks; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The last received restart order.
    #[serde(flatten)]
    pub newest: ReceivedOrder,
    /// The order before it. It counts again if a concurrent order of another node replaces the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<ReceivedOrder>,
    /// The authorities that the process trusts: a digest of the files when it was first seen, empty if they changed
    /// just before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
    /// The same digest at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_trusted: Option<String>,
    /// The ordered defragmentation that was carried out last: its ID and the node that took the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defragmented: Option<(u64, Option<NodeName>)>,
}

/// A received restart order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedOrder {
    /// Its ID; 0 before the first.
    #[serde(default)]
    pub order: u64,
    /// The node that took the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_by: Option<NodeName>,
    /// The process that the order replaces. If any other process runs, the order is carried out.
    #[serde(default)]
    pub replaces: Option<String>,
}

impl ReceivedOrder {
    /// As `NodeOrder::identity`.
    fn identity(&self) -> (u64, &Option<NodeName>) {
        (self.order, &self.order_by)
    }

    /// True while the order has to be carried out, given the process that runs.
    fn is_open(&self, runs: Option<&str>) -> bool {
        runs.is_some() && self.replaces.as_deref() == runs
    }
}

/// Why a node needs a restart of its etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartWish {
    /// One line.
    pub why: String,
    /// The order; `None` if the settings have changed.
    #[serde(default)]
    pub order: Option<u64>,
    /// True if another version of etcd is selected than runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub version: bool,
    /// Why etcd must not be restarted now although it needs it: it could not work with its certificate files, or start
    /// with the binary that has replaced its own, or these or the disk are read first. No grant is given meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// True if it is held only until files or the disk were read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reading: bool,
}

impl RestartWish {
    /// A wish that nobody ordered and nothing holds.
    pub fn new(why: String) -> Self {
        Self {
            why,
            order: None,
            version: false,
            held: None,
            reading: false,
        }
    }
}

impl EtcdRun {
    /// The record after one more observation: the process that runs now, the digest of the settings in force
    /// for the next start (if known), the file of the binary of `etcd.service`, and the last restart order.
    /// While it is unknown which process runs, an order is not recorded, because it would count as carried
    /// out.
    #[must_use]
    pub fn look(
        &self,
        process: &Fact<String>,
        in_force: Option<&str>,
        base: Option<&str>,
        order: Option<&NodeOrder>,
        me: &NodeName,
    ) -> Self {
        let mut next = self.clone();
        if let Some(digest) = in_force {
            next.written = Some(digest.to_owned());
        }
        let runs = process.known();
        if runs.is_some() && next.process.as_ref() != runs {
            next.process = runs.cloned();
            next.settings.clone_from(&next.written);
            // Nobody knows from which file a process was started that is older than the first look at that file.
            let same = self.last_base.as_deref() == base;
            next.base = base.filter(|_| same).map(str::to_owned);
        }
        if let Some(base) = base {
            next.last_base = Some(base.to_owned());
        }
        if let Some(order) = order.filter(|_| !process.is_unreachable()) {
            next.record_order(order, runs.map(String::as_str), me);
        }
        next
    }

    /// The record after a look at the authorities in etcd's files, before [`EtcdRun::look`]. etcd reads these files
    /// only when it starts.
    #[must_use]
    pub fn trusts(&self, process: &Fact<String>, authorities: Option<&str>) -> Self {
        let mut next = self.clone();
        let Some(authorities) = authorities else {
            return next;
        };
        let runs = process.known();
        let same = self
            .last_trusted
            .as_deref()
            .is_none_or(|last| last == authorities);
        if runs.is_some() && (self.process.as_ref() != runs || self.trusted.is_none()) {
            next.trusted = Some(if same { authorities } else { "" }.to_owned());
        }
        next.last_trusted = Some(authorities.to_owned());
        next
    }

    /// The record after [`EtcdRun::look`], if the settings in force are those of this transport. Until a
    /// process is known to run with them, the transport of the one before counts.
    #[must_use]
    pub fn speaks(self, written: Option<&Transport>) -> Self {
        let is_it = self.settings.is_some() && self.settings == self.written;
        Self {
            transport: written.filter(|_| is_it).cloned().or(self.transport),
            ..self
        }
    }

    /// True if the process may have been started from another file than is there now. The versions of both say whether
    /// that matters.
    pub fn is_replaced(&self, base: Option<&str>) -> bool {
        base.is_some() && self.base.as_deref() != base
    }

    /// The record after an etcd of this version has served, with data of the format of `stored`.
    #[must_use]
    pub fn serves(self, version: Option<EtcdVersion>, stored: Option<EtcdVersion>) -> Self {
        Self {
            served: version.or(self.served),
            stored: stored.or(self.stored),
            ..self
        }
    }

    /// The record after this ordered defragmentation.
    #[must_use]
    pub fn defragments(self, order: &NodeOrder) -> Self {
        Self {
            defragmented: Some((order.id, order.by.clone())),
            ..self
        }
    }

    /// Records an order. An older order replaces the newest one if the newest one was lost to a concurrent
    /// order of another node. The older order is carried out unless that was done before.
    fn record_order(&mut self, order: &NodeOrder, runs: Option<&str>, me: &NodeName) {
        let identity = order.identity();
        if identity == self.newest.identity() {
            return;
        }
        if let Some(former) = self
            .former
            .as_mut()
            .filter(|former| former.identity() == identity)
        {
            std::mem::swap(&mut self.newest, former);
            return;
        }
        let former = self.former.as_ref().map(ReceivedOrder::identity);
        if identity > self.newest.identity() || Some(identity) > former {
            let received = ReceivedOrder {
                order: order.id,
                order_by: order.by.clone(),
                replaces: runs.filter(|_| order.nodes.contains(me)).map(str::to_owned),
            };
            self.former = Some(std::mem::replace(&mut self.newest, received));
        }
    }

    /// The record after a process came up while settings were being written. The process may have the old
    /// settings, and one restart too many is better than one too few.
    #[must_use]
    pub fn came_up_meanwhile(&self, process: &str) -> Self {
        if self.process.as_deref() == Some(process) {
            return self.clone();
        }
        Self {
            process: Some(process.to_owned()),
            settings: self.written.clone(),
            ..self.clone()
        }
    }

    /// Whether the process that runs now needs a restart, and why. `order` is the last restart order.
    pub fn wish(&self, process: Option<&str>, order: Option<&NodeOrder>) -> Option<RestartWish> {
        let process = process?;
        let order = order.filter(|order| order.identity() == self.newest.identity());
        if let Some(order) = order.filter(|_| self.newest.is_open(Some(process))) {
            return Some(RestartWish {
                order: Some(order.id),
                ..RestartWish::new("an operator ordered it".to_owned())
            });
        }
        if self.process.as_deref() != Some(process) {
            return None;
        }
        let why = if self.settings.is_some() && self.written.is_some() && self.settings != self.written {
            "etcd was started with older settings than are written"
        } else if self.trusted.is_some() && self.trusted != self.last_trusted {
            "etcd was started with other authorities than are in its CA files now"
        } else {
            return None;
        };
        Some(RestartWish::new(why.to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn me() -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn runs(process: &str) -> Fact<String> {
        Fact::Known(process.to_owned())
    }

    fn order(id: u64) -> NodeOrder {
        NodeOrder {
            id,
            by: Some(me()),
            nodes: [me()].into(),
        }
    }

    #[test]
    fn a_process_that_runs_with_older_settings_is_to_be_replaced_once() {
        let none = EtcdRun::default();
        let first = none.look(&runs("b:7"), Some("old"), None, None, &me());
        assert_eq!(first.wish(Some("b:7"), None), None, "nothing has changed");
        let written = first.look(&runs("b:7"), Some("new"), None, None, &me());
        assert!(written.wish(Some("b:7"), None).is_some(), "written since");
        assert_eq!(written.wish(None, None), None, "nothing runs");
        let back = written.look(&runs("b:7"), Some("old"), None, None, &me());
        assert_eq!(back.wish(Some("b:7"), None), None, "taken back");
        let again = written.look(&runs("b:9"), Some("new"), None, None, &me());
        assert_eq!(again.wish(Some("b:9"), None), None, "restarted");
        let rebooted = written.look(&runs("c:7"), None, None, None, &me());
        assert_eq!(
            rebooted.wish(Some("c:7"), None),
            None,
            "rebooted, before settings are written anew"
        );
    }

    #[test]
    fn a_process_that_trusts_other_authorities_than_its_files_have_is_to_be_replaced_once() {
        let look = |run: &EtcdRun, process: &str, authorities: Option<&str>| {
            run.trusts(&runs(process), authorities)
                .look(&runs(process), Some("x"), None, None, &me())
        };
        let first = look(&EtcdRun::default(), "b:7", Some("old"));
        assert_eq!(first.wish(Some("b:7"), None), None, "nothing has changed");
        let unreadable = look(&first, "b:7", None);
        assert_eq!(unreadable.wish(Some("b:7"), None), None, "not known");
        let changed = look(&first, "b:7", Some("both"));
        let wish = changed.wish(Some("b:7"), None).unwrap();
        assert!(wish.why.contains("authorities"), "{wish:?}");
        let back = look(&changed, "b:7", Some("old"));
        assert_eq!(back.wish(Some("b:7"), None), None, "taken back");
        let restarted = look(&changed, "b:8", Some("both"));
        assert_eq!(restarted.wish(Some("b:8"), None), None, "restarted");
        let at_once = look(&first, "b:8", Some("both"));
        assert!(
            at_once.wish(Some("b:8"), None).is_some(),
            "it may have started before the change"
        );
        let again = look(&at_once, "b:9", Some("both"));
        assert_eq!(again.wish(Some("b:9"), None), None, "restarted");
        let older_agent = EtcdRun::default().look(&runs("b:7"), Some("x"), None, None, &me());
        let updated = look(&older_agent, "b:7", Some("old"));
        assert_eq!(updated.wish(Some("b:7"), None), None, "the agent was upgraded");
    }

    #[test]
    fn an_etcd_that_was_there_before_the_agent_is_left_alone() {
        let before = EtcdRun::default().look(&runs("b:7"), None, None, None, &me());
        let after = before.look(&runs("b:7"), Some("ours"), None, None, &me());
        assert_eq!(after.wish(Some("b:7"), None), None);
    }

    #[test]
    fn a_process_that_came_up_while_settings_were_written_may_have_the_old_ones() {
        let run = EtcdRun::default().look(&runs("b:7"), Some("old"), None, None, &me());
        let run = run
            .came_up_meanwhile("b:8")
            .look(&runs("b:8"), Some("new"), None, None, &me());
        assert!(run.wish(Some("b:8"), None).is_some());
        assert_eq!(run.came_up_meanwhile("b:8"), run);
    }

    #[test]
    fn an_order_is_carried_out_once_and_only_on_its_nodes() {
        let run = EtcdRun::default().look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        assert_eq!(run.wish(Some("b:7"), Some(&order(3))).unwrap().order, Some(3));
        assert_eq!(run.wish(Some("b:8"), Some(&order(3))), None, "another process");
        assert_eq!(run.wish(Some("b:7"), None), None, "withdrawn");
        let done = run.look(&runs("b:8"), Some("x"), None, Some(&order(3)), &me());
        assert_eq!(done.wish(Some("b:8"), Some(&order(3))), None, "not again");
        let elsewhere = NodeOrder {
            id: 4,
            by: Some(me()),
            nodes: [NodeName::new("n2").unwrap()].into(),
        };
        let other = run.look(&runs("b:7"), Some("x"), None, Some(&elsewhere), &me());
        assert_eq!(other.wish(Some("b:7"), Some(&elsewhere)), None, "not here");
        let down = EtcdRun::default().look(&Fact::Absent, Some("x"), None, Some(&order(3)), &me());
        assert_eq!(
            down.wish(Some("b:9"), Some(&order(3))),
            None,
            "nothing ran when it was ordered"
        );
    }

    #[test]
    fn of_two_orders_at_one_time_at_two_nodes_each_is_carried_out() {
        let first = order(3);
        let second = NodeOrder {
            by: Some(NodeName::new("n2").unwrap()),
            ..order(3)
        };
        let run = EtcdRun::default().look(&runs("b:7"), Some("x"), None, Some(&first), &me());
        let done = run.look(&runs("b:8"), Some("x"), None, Some(&first), &me());
        assert_eq!(done.wish(Some("b:8"), Some(&first)), None);
        let received = done.look(&runs("b:8"), Some("x"), None, Some(&second), &me());
        assert!(
            received.wish(Some("b:8"), Some(&second)).is_some(),
            "the other order"
        );
        let back = received.look(&runs("b:8"), Some("x"), None, Some(&first), &me());
        assert_eq!(back.wish(Some("b:8"), Some(&first)), None, "it is done");
        let again = back.look(&runs("b:8"), Some("x"), None, Some(&second), &me());
        assert_eq!(again, received);
    }

    #[test]
    fn t02_an_order_counts_again_where_the_one_after_it_was_lost_to_another() {
        let run = EtcdRun::default().look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        let newer = run.look(&runs("b:7"), Some("x"), None, Some(&order(4)), &me());
        let back = newer.look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        assert!(back.wish(Some("b:7"), Some(&order(3))).is_some());
        let done = back.look(&runs("b:8"), Some("x"), None, Some(&order(3)), &me());
        assert_eq!(done.wish(Some("b:8"), Some(&order(3))), None);
    }

    #[test]
    fn an_order_received_late_counts_where_the_newer_one_was_lost_to_it() {
        let by = |name: &str| NodeOrder {
            by: Some(NodeName::new(name).unwrap()),
            ..order(4)
        };
        let run = EtcdRun::default().look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        let own = run.look(&runs("b:8"), Some("x"), None, Some(&by("n3")), &me());
        let lost = own.look(&runs("b:8"), Some("x"), None, Some(&by("n2")), &me());
        assert!(lost.wish(Some("b:8"), Some(&by("n2"))).is_some());
        let older = lost.look(&runs("b:8"), Some("x"), None, Some(&order(2)), &me());
        assert_eq!(older, lost, "nothing older than both is recorded");
    }

    /// Agents of different versions read each other's state files.
    #[test]
    fn the_state_file_is_flat() {
        let first = EtcdRun::default().look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        let run = first.look(&runs("b:7"), Some("x"), None, Some(&order(4)), &me());
        let text = r#"{"written":"x","process":"b:7","settings":"x","order":4,"order_by":"n1","replaces":"b:7","former":{"order":3,"order_by":"n1","replaces":"b:7"}}"#;
        assert_eq!(serde_json::to_string(&run).unwrap(), text);
        assert_eq!(serde_json::from_str::<EtcdRun>(text).unwrap(), run);
        let older = r#"{"written":"x","former":{"order":3,"order_by":null,"replaces":"b:7"}}"#;
        let former = serde_json::from_str::<EtcdRun>(older).unwrap().former.unwrap();
        assert_eq!(former.replaces.as_deref(), Some("b:7"));
    }

    #[test]
    fn t02_an_order_is_not_recorded_while_it_is_unknown_what_runs() {
        let run = EtcdRun::default().look(&runs("b:7"), Some("x"), None, None, &me());
        let silent = Fact::Unreachable("systemd does not answer".to_owned());
        let unknown = run.look(&silent, Some("x"), None, Some(&order(3)), &me());
        assert_eq!(unknown, run, "nothing is recorded");
        let received = unknown.look(&runs("b:7"), Some("x"), None, Some(&order(3)), &me());
        assert_eq!(
            received.wish(Some("b:7"), Some(&order(3))).unwrap().order,
            Some(3)
        );
    }

    #[test]
    fn a_process_speaks_as_its_settings_say_until_another_one_runs_with_other_settings() {
        let (plain, tls) = (
            Transport::default(),
            Transport {
                peer_listens: true,
                ..Transport::default()
            },
        );
        let look = |run: &EtcdRun, process: &str, digest: &str, transport: &Transport| {
            run.look(&runs(process), Some(digest), None, None, &me())
                .speaks(Some(transport))
        };
        let first = look(&EtcdRun::default(), "b:7", "plain", &plain);
        assert_eq!(first.transport.as_ref(), Some(&plain));
        let written = look(&first, "b:7", "tls", &tls);
        assert_eq!(written.transport.as_ref(), Some(&plain), "not restarted yet");
        let unknown = written.look(&runs("b:7"), None, None, None, &me()).speaks(None);
        assert_eq!(unknown.transport.as_ref(), Some(&plain), "nothing is in force");
        let restarted = look(&written, "b:8", "tls", &tls);
        assert_eq!(restarted.transport.as_ref(), Some(&tls));
        let before = EtcdRun::default().look(&runs("b:7"), None, None, None, &me());
        assert_eq!(look(&before, "b:7", "tls", &tls).transport, None, "not ours");
    }

    #[test]
    fn a_binary_that_was_replaced_is_noticed() {
        let look = |run: &EtcdRun, process: &str, base: &str| {
            run.look(&runs(process), Some("x"), Some(base), None, &me())
        };
        let adopted = look(&EtcdRun::default(), "b:6", "one");
        assert!(adopted.is_replaced(Some("one")), "it may be older than the file");
        assert!(look(&adopted, "b:6", "one").is_replaced(Some("one")));
        let first = look(&adopted, "b:7", "one");
        assert!(!first.is_replaced(Some("one")));
        assert!(!first.is_replaced(None), "not known");
        let later = look(&first, "b:7", "two");
        assert!(later.is_replaced(Some("two")));
        let restarted = look(&later, "b:8", "two");
        assert!(!restarted.is_replaced(Some("two")));
        // Which of the two was started?
        let both = look(&restarted, "b:9", "three");
        assert!(both.is_replaced(Some("three")));
        assert!(!look(&both, "b:10", "three").is_replaced(Some("three")));
    }
}
