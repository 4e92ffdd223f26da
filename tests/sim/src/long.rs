//! Long schedules. The cluster has formed. Orders of every kind are typed, hosts and agents stay down, and
//! calls fail, with time in between.

use crate::fault::Fault;
use crate::rng::Rng;
use crate::schedule::{self, Schedule, weather};
use crate::world::{Broken, Call, How};

/// `cluster.grace` in long schedules, in milliseconds.
const GRACE_MS: u64 = 3000;

/// The kinds of faults in one schedule.
struct Kinds {
    /// The store may be emptied. Then no agent loses its memory: a new memory would trust the empty store.
    empties: bool,
    /// One host is configured with another store for a while. Then no agent loses its memory either: a new
    /// memory would trust the empty store, although the records are in the other one.
    differs: bool,
    /// Disks of more than one host may be lost.
    ruins: bool,
    /// The only host that may be ordered out. Without `ruins` also the only one that loses data or memory.
    victim: usize,
}

impl Schedule {
    /// Derives everything from the seed.
    pub fn long(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x10e6_5c4e_d01e_5eed);
        let (nodes, size) = match rng.below(20) {
            0 => (1, 1),
            1 | 2 => (3, 1),
            3..7 => (5, 3),
            7..10 => (4, 3),
            10 | 11 => (5, 5),
            _ => (3, 3),
        };
        let store = rng.chance(65);
        let empties = store && rng.chance(8);
        let kinds = Kinds {
            empties,
            differs: store && nodes > 1 && !empties && rng.chance(15),
            ruins: rng.chance(20),
            victim: rng.index(nodes),
        };
        let mut schedule = Self {
            starts: (0..nodes).map(|_| rng.below(300)).collect(),
            grace_ms: GRACE_MS,
            sized: store && !kinds.empties,
            ..Self::calm(seed, nodes, size, store)
        };
        let mut at = rng.range(8000, 14_000);
        let begins = rng.chance(25);
        if begins {
            at = schedule.begin(&mut rng, at);
        }
        if kinds.differs {
            let host = rng.index(nodes);
            schedule.push(at.saturating_sub(rng.below(5000)), Fault::StoreDiffers(host));
        }
        for number in 0..rng.range(2, 7) {
            schedule.more(&kinds, &mut rng, at);
            at += match rng.below(10) {
                // The work that `begin` started is still running.
                _ if begins && number == 0 => rng.below(4000),
                0..4 => rng.below(1500),
                4..7 => rng.below(8000),
                7..9 => rng.below(30_000),
                _ => rng.below(90_000),
            };
        }
        // A separate random source, so that schedules without newcomers do not change.
        let mut grows = Rng::new(seed ^ 0x9e0e_c70a_7e9e_0ec7);
        if nodes > size.max(3) && !kinds.empties && !kinds.differs && grows.chance(30) {
            schedule.newcomers = 1 + grows.index(nodes - 3);
            schedule.widen(&mut grows);
        }
        schedule.faults.sort_by_key(|(at, _)| *at);
        schedule
    }

    /// As [`Schedule::long`]. In half of these, people also upgrade etcd, defragment it, or restart single nodes. `long`
    /// itself stays as it is: some tests rest on its schedules.
    pub fn long_with_orders(seed: u64) -> Self {
        let mut schedule = Self::long(seed);
        let mut rng = Rng::new(seed ^ 0x0de5_70de_570d_e570);
        if rng.chance(50) {
            return schedule;
        }
        let a = rng.index(schedule.nodes);
        if rng.chance(30) {
            // The cluster has just formed with the first version: the next patch or the next minor.
            schedule.push(rng.range(8000, 14_000), Fault::Upgrade(a, 1 + rng.index(2)));
        }
        let end = schedule.end().max(20_000);
        for _ in 0..rng.range(1, 4) {
            let (a, b) = (rng.index(schedule.nodes), rng.index(schedule.nodes));
            let order = match rng.below(10) {
                0..2 => Fault::DefragAll(a),
                2 => Fault::CancelDefrag(a),
                3..6 => Fault::Upgrade(a, rng.index(4)),
                6..8 => Fault::CancelUpgrade(a),
                _ => Fault::RestartOne(a, b),
            };
            schedule.push(rng.range(9000, end), order);
        }
        schedule.faults.sort_by_key(|(at, _)| *at);
        schedule
    }

    /// Adds the newcomers to `cluster.nodes` of one host after the other. A restore may follow, whose epoch
    /// needs the votes of both electorates.
    fn widen(&mut self, rng: &mut Rng) {
        let at = rng.range(1000, self.end().max(20_000));
        for host in 0..self.nodes - self.newcomers {
            self.push(at + rng.below(20_000), Fault::Widen(host));
        }
        if self.store && rng.chance(50) {
            let (a, b) = (rng.index(self.nodes), rng.index(self.nodes));
            let at = at + rng.below(30_000);
            self.push(at, Fault::Backup(a));
            self.push(at + rng.range(1000, 4000), Fault::Restore(b));
        }
    }

    fn push(&mut self, at: u64, fault: Fault) {
        self.faults.push((at, fault));
    }

    /// Starts a restore, a rolling restart or a change of size. Returns the time of the next fault, soon
    /// after it.
    fn begin(&mut self, rng: &mut Rng, at: u64) -> u64 {
        let (a, b) = (rng.index(self.nodes), rng.index(self.nodes));
        match rng.below(3) {
            0 if self.store => {
                self.push(at, Fault::Backup(a));
                let at = at + rng.range(1000, 4000);
                if rng.chance(40) {
                    let (host, call) = (rng.index(self.nodes), steps(rng));
                    self.push(at, Fault::Breaks(host, fails(rng, call)));
                }
                self.push(at, Fault::Restore(b));
                if rng.chance(20) {
                    self.push(at + rng.below(1500), Fault::Blackout(rng.range(500, 20_000)));
                }
                at + rng.below(1500)
            }
            1 if self.sized => {
                self.push(at, Fault::SetSize(a, size(rng)));
                at + rng.below(5000)
            }
            _ => {
                self.push(at, Fault::RestartAll(a));
                at + rng.below(10_000)
            }
        }
    }

    /// Adds one more fault or order, or several that belong together.
    fn more(&mut self, kinds: &Kinds, rng: &mut Rng, at: u64) {
        let (a, b) = (rng.index(self.nodes), rng.index(self.nodes));
        let victim = if kinds.ruins { a } else { kinds.victim };
        let fault = match rng.below(100) {
            0..20 => return self.process(kinds, rng, at, a, victim),
            20..36 => return self.disks(rng, at, a, victim),
            36..46 => network(rng, a, b),
            46..48 => Fault::Mend,
            48..50 => Fault::Noise(rng.below(30), rng.below(30), rng.below(800)),
            50..55 => Fault::KillEtcd(a),
            55..57 => Fault::Clock(a, i64::try_from(rng.below(240_000)).unwrap_or(0) - 120_000),
            57..60 => Fault::Store(weather(rng)),
            60..62 => Fault::StoreRefuses(a),
            62 if kinds.empties => Fault::EmptyStore,
            63..75 => Fault::Breaks(a, broken(rng)),
            _ => self.order(kinds, rng, a, b),
        };
        self.push(at, fault);
    }

    /// Agents and hosts that stop, for moments or for minutes.
    fn process(&mut self, kinds: &Kinds, rng: &mut Rng, at: u64, a: usize, victim: usize) {
        let fault = match rng.below(20) {
            0..5 => Fault::AgentDies(a, u32::try_from(rng.below(40)).unwrap_or(0)),
            5..7 => Fault::AgentStops(a, rng.below(20_000)),
            7 => Fault::AgentOff(a, rng.range(90_000, 150_000)),
            8..11 => {
                // The gate decides alone. `Mend` comes late, so that people repair nothing before that.
                self.push(at, Fault::AgentOff(a, rng.range(90_000, 150_000)));
                self.push(at + rng.range(66_000, 90_000), Fault::Mend);
                let off = rng.range(500, 5000);
                return self.push(at + rng.below(2000), Fault::PowerOff(a, off));
            }
            11 | 12 if !kinds.empties && !kinds.differs && (self.nodes > 1 || self.store) => {
                if self.store && rng.chance(40) {
                    Fault::Anew(victim)
                } else {
                    Fault::Reinstall(victim)
                }
            }
            13 => Fault::Blackout(rng.range(500, 30_000)),
            14..16 => Fault::PowerOff(a, rng.range(20_000, 90_000)),
            _ => Fault::PowerOff(a, rng.below(9000)),
        };
        self.push(at, fault);
    }

    /// Data directories that are emptied, damaged, set back to an older state, mounted late, of another
    /// cluster, or cannot be inspected.
    fn disks(&mut self, rng: &mut Rng, at: u64, a: usize, victim: usize) {
        match rng.below(20) {
            0..9 => self.push(at, Fault::Wipe(victim)),
            9..12 => self.push(at, Fault::Corrupt(victim)),
            12..15 => {
                self.push(at.saturating_sub(rng.below(5000)), Fault::Copy(victim));
                self.push(at + rng.below(10_000), Fault::SetBack(victim));
            }
            15 => self.push(at, Fault::InspectFails(a)),
            16 => self.push(at, Fault::LateMount(a, rng.range(2000, 60_000))),
            17 => self.push(at, Fault::Foreign(victim)),
            18 => self.push(
                at,
                Fault::StopsFail(a, u32::try_from(rng.range(1, 30)).unwrap_or(1)),
            ),
            _ => self.push(at, Fault::Copy(a)),
        }
    }

    /// An order that people type. They order out one node at most: if two nodes are ordered out at the same
    /// time on two nodes, neither accepts the other's orders, and the two registers never converge.
    fn order(&self, kinds: &Kinds, rng: &mut Rng, a: usize, b: usize) -> Fault {
        match rng.below(25) {
            0..2 => Fault::Stop(a),
            2 => Fault::Start(a),
            3 => Fault::Mask(a),
            4 => Fault::Pause(a),
            5 => Fault::Resume(a),
            6..8 => Fault::Backup(a),
            8..11 => Fault::RestartAll(a),
            11 => Fault::CancelRestart(a),
            12..15 if self.store => Fault::Restore(a),
            15..18 if self.sized => Fault::SetSize(a, size(rng)),
            18..20 => Fault::Out(a, kinds.victim),
            20..22 => Fault::In(a, b),
            22 => Fault::MoveLeader(a, None),
            _ => Fault::MoveLeader(a, Some(b)),
        }
    }
}

fn size(rng: &mut Rng) -> usize {
    match rng.below(8) {
        0 | 1 => 1,
        2..5 => 5,
        5 | 6 => 3,
        _ => rng.index(7),
    }
}

/// Cuts a link, or isolates a host. Isolates hosts more often than a dense schedule does.
fn network(rng: &mut Rng, a: usize, b: usize) -> Fault {
    if a != b && rng.chance(40) {
        Fault::Isolate(a)
    } else {
        schedule::network(rng, a, b)
    }
}

/// A call of any kind that fails.
fn broken(rng: &mut Rng) -> Broken {
    let call = match rng.below(10) {
        0 => Call::Unit,
        1 => Call::Inspect,
        2 | 3 => Call::Remember,
        _ => steps(rng),
    };
    fails(rng, call)
}

/// A call that a restore makes to systemd or to `etcd-agent-data.service`.
fn steps(rng: &mut Rng) -> Call {
    match rng.below(6) {
        0 => Call::Start,
        1 => Call::Stop,
        2 => Call::Restart,
        3 => Call::Apply,
        4 => Call::Stage,
        _ => Call::Replace,
    }
}

/// The call fails once, a few times, or until it is repaired.
fn fails(rng: &mut Rng, call: Call) -> Broken {
    let answer_may_be_lost = !matches!(call, Call::Unit | Call::Inspect | Call::Remember);
    Broken {
        call,
        how: if answer_may_be_lost && rng.chance(40) {
            How::AnswerLost
        } else {
            How::Refused
        },
        times: match rng.below(4) {
            0 => None,
            1 => Some(u32::try_from(rng.range(2, 8)).unwrap_or(2)),
            _ => Some(1),
        },
    }
}
