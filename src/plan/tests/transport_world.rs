//! A small world in which three planners move a cluster between plain HTTP and TLS.

use super::*;

fn files(dir: &str) -> TlsFiles {
    TlsFiles {
        cert_file: format!("/{dir}/crt").into(),
        key_file: format!("/{dir}/key").into(),
        ca_file: format!("/{dir}/ca").into(),
    }
}

pub(super) fn over(text: &str) -> Over {
    Over {
        client_tls: text.contains('c'),
        dials_tls: text.contains('d'),
        listens_tls: text.contains('l'),
    }
}

/// `c`: clients over TLS, `d`: connects to members over TLS, `l`: listens for them over TLS.
pub(super) fn transport(text: &str) -> Transport {
    let Over {
        client_tls,
        dials_tls,
        listens_tls,
    } = over(text);
    Transport {
        client: client_tls.then(|| files("client")),
        peer: dials_tls.then(|| files("peer")),
        peer_listens: listens_tls,
    }
}

pub(super) fn configure(spec: &mut Spec, text: &str) {
    spec.etcd.client_tls = transport(text).client;
    spec.etcd.peer_tls = transport(text).peer;
}

/// One node of the world.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) configured: &'static str,
    pub(super) assignment: Assignment,
    pub(super) runs: Over,
    memory: Memory,
    pub(super) grant: Option<Grant>,
}

/// Three hosts with a member each.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) hosts: Vec<Host>,
    /// Whether each member is listed under https.
    pub(super) listed: Vec<bool>,
    leader: usize,
    term: u64,
    steady: u64,
    pub(super) restarts: usize,
}

impl World {
    pub(super) fn new(configured: &'static str) -> Self {
        let spec = spec(0, 3, 3);
        let g = genesis(&spec, 3, 1, Origin::Empty);
        let host = |i| Host {
            configured,
            assignment: Assignment {
                transport: Some(transport(configured)),
                ..assignment(&spec, &g, i)
            },
            runs: over(configured),
            memory: Memory::default(),
            grant: None,
        };
        Self {
            hosts: (0..3).map(host).collect(),
            listed: vec![over(configured).listens_tls; 3],
            leader: 0,
            term: 2,
            steady: 1_000_000,
            restarts: 0,
        }
    }

    /// All are configured like that, and have noticed.
    pub(super) fn configure(&mut self, text: &'static str) {
        for (i, host) in self.hosts.iter_mut().enumerate() {
            let mut spec = spec(i, 3, 3);
            configure(&mut spec, text);
            host.configured = text;
            host.assignment.settings_digest = spec.settings_digest();
        }
    }

    fn view(&self, i: usize, observation: &Observation) -> TransportView {
        let host = &self.hosts[i];
        let mut spec = observation.spec.clone();
        spec.node = name(i);
        configure(&mut spec, host.configured);
        let assigned = host.assignment.transport(&spec.etcd);
        let view = TransportView {
            configured: Transport::configured(&spec.etcd).over(),
            assigned: Some(assigned.over()),
            runs: Some(host.runs),
            next: None,
        };
        let known = |status: &NodeStatus| (status.node.clone(), Fact::Known(status.clone()));
        let all = observation.peers.values().filter_map(Fact::known);
        let peers = all.chain([&observation.me]).map(known).collect();
        let step = next_transport(&TransportSeen {
            spec: &spec,
            assigned: &assigned,
            started: true,
            members: observation.me.members.known(),
            own: Some(&view),
            peers: &peers,
        });
        TransportView {
            next: Some(step.next.over()),
            ..view
        }
    }

    pub(super) fn observe(&self, me: usize) -> Observation {
        let mut obs = healthy(me);
        configure(&mut obs.spec, self.hosts[me].configured);
        obs.steady = SteadyMs(self.steady);
        obs.seed = self.steady;
        let g = obs.me.genesis.clone().unwrap();
        for i in 0..3 {
            let status = if i == me { &mut obs.me } else { peer(&mut obs, i) };
            if let Fact::Known(etcd) = &mut status.etcd {
                etcd.leader = g.member_id(&name(self.leader));
                etcd.term = RaftTerm(self.term);
            }
            if let Fact::Known(list) = &mut status.members {
                list.term = RaftTerm(self.term);
                for (member, tls) in list.members.iter_mut().zip(&self.listed) {
                    let scheme = if *tls { "https" } else { "http" };
                    member.peer_urls = vec![format!("{scheme}://{}:2380", member.name)];
                }
            }
            let host = &self.hosts[i];
            status.steering.grant.clone_from(&host.grant);
            // Without `next`, which depends on those of all.
            let mut spec = spec(i, 3, 3);
            configure(&mut spec, host.configured);
            status.transport = Some(TransportView {
                configured: Transport::configured(&spec.etcd).over(),
                assigned: Some(host.assignment.transport(&spec.etcd).over()),
                runs: Some(host.runs),
                next: None,
            });
        }
        for i in 0..3 {
            let view = self.view(i, &obs);
            let assigned = view.assigned.unwrap();
            let wants = assigned != self.hosts[i].runs
                || view.next.map(|next| next.listens_tls) != Some(self.hosts[i].runs.listens_tls);
            let status = if i == me { &mut obs.me } else { peer(&mut obs, i) };
            status.transport = Some(view);
            if wants {
                super::restarts::wish(status, None);
            }
        }
        obs.assignment = Some(self.hosts[me].assignment.clone());
        let generation = self.hosts[me].assignment.generation;
        obs.gate.cleared = Some(generation);
        if let Fact::Known(in_force) = &mut obs.in_force {
            in_force.generation = generation;
        }
        obs
    }

    /// One look of one agent, and the action that follows.
    pub(super) fn look(&mut self, me: usize) {
        self.steady += 6000;
        let obs = self.observe(me);
        let decision = plan(&obs, &self.hosts[me].memory);
        self.hosts[me].memory = decision.memory;
        self.hosts[me].grant = self.hosts[me].memory.grant.clone().map(|(grant, _)| grant);
        match decision.action {
            Some(Action::Assign { assignment }) => self.hosts[me].assignment = *assignment,
            Some(Action::UpdateMember { node, peer_urls, .. }) => {
                let which = (0..3).find(|i| name(*i) == node).unwrap();
                self.listed[which] = are_tls(&peer_urls);
            }
            Some(Action::MoveLeader { node, .. }) => {
                self.leader = (0..3).find(|i| name(*i) == node).unwrap();
                self.term += 1;
            }
            Some(Action::RestartEtcd { .. }) => {
                let others = (0..3).filter(|i| *i != me).map(|i| peer_of(&obs, i));
                let assigned = self.hosts[me].assignment.transport(&obs.spec.etcd).over();
                assert_eq!(
                    transport_objection(assigned, Some(self.hosts[me].runs), others),
                    None
                );
                self.hosts[me].memory.restarted_at = None;
                self.start(me);
                self.restarts += 1;
            }
            _ => {}
        }
    }

    /// etcd here is started anew, whatever caused it.
    fn start(&mut self, i: usize) {
        let etcd = spec(i, 3, 3).etcd;
        self.hosts[i].runs = self.hosts[i].assignment.transport(&etcd).over();
        if self.leader == i {
            (self.leader, self.term) = ((i + 1) % 3, self.term + 1);
        }
    }

    /// True if the etcd of one node can open a connection to the other's.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let tls = self.listed[to];
        self.hosts[to].runs.listens_tls == tls && (!tls || self.hosts[from].runs.dials_tls)
    }

    /// At most one member is not reached by the others, and every two are connected: raft uses connections
    /// that either side has opened.
    fn check(&self) {
        let pairs = [(0, 1), (0, 2), (1, 2)];
        for (a, b) in pairs {
            assert!(self.reaches(a, b) || self.reaches(b, a), "{a} and {b}: {self:#?}");
        }
        let away = (0..3).filter(|to| (0..3).any(|from| from != *to && !self.reaches(from, *to)));
        assert!(away.count() <= 1, "{self:#?}");
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.hosts.iter().all(|host| host.runs == over(text))
            && self.listed.iter().all(|tls| *tls == over(text).listens_tls)
    }

    /// What a moment is for, by its number.
    pub(super) fn happen(&mut self, what: u8) {
        let i = usize::from(what % 3);
        match what / 3 {
            0 => {
                self.hosts[i].memory = Memory::default();
                self.hosts[i].grant = None;
            }
            1 => self.start(i),
            // All hosts lose power.
            2 if i == 0 => (0..3).for_each(|i| self.start(i)),
            _ => self.look(i),
        }
        self.check();
    }

    /// Nothing else happens until all is done.
    pub(super) fn settle(&mut self, text: &str) {
        for round in 0..200 {
            if self.is(text) {
                return;
            }
            self.look(round % 3);
            self.check();
        }
        panic!("not {text:?}: {self:#?}");
    }
}

pub(super) fn peer_of(obs: &Observation, i: usize) -> &NodeStatus {
    obs.peers.get(&name(i)).unwrap().known().unwrap()
}
