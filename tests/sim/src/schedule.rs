//! The faults of a schedule and their times, all derived from the seed.

use crate::fault::Fault;
use crate::rng::Rng;
use crate::world::{Broken, Call, How, Weather};

/// One run of the simulator.
// Each is a setting of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The source of all random choices.
    pub seed: u64,
    /// The number of hosts.
    pub nodes: usize,
    /// The wanted number of voters.
    pub size: usize,
    /// Whether there is a shared store.
    pub store: bool,
    /// The time of each agent's first start, in milliseconds.
    pub starts: Vec<u64>,
    /// The faults with their times in milliseconds, in order.
    pub faults: Vec<(u64, Fault)>,
    /// `cluster.grace`, in milliseconds.
    pub grace_ms: u64,
    /// Whether the store holds the size.
    pub sized: bool,
    /// How many full backups retention keeps; `None` for the default.
    pub keeps: Option<usize>,
    /// How many of the last hosts are in `cluster.nodes` of the others only after `Fault::Widen`.
    pub newcomers: usize,
    /// Whether the members' data is compared often, and one that differs is rebuilt.
    pub repairs: bool,
    /// Whether etcd serves clients over TLS.
    pub tls: bool,
}

/// The kinds of schedules with one subject, apart from those with a liar.
const SUBJECTS: [fn(u64) -> Schedule; 5] = [
    Schedule::with_reboots,
    Schedule::with_upgrades,
    Schedule::with_little_space,
    Schedule::with_differences,
    Schedule::with_moves,
];

impl Schedule {
    /// A cluster that forms, without faults.
    pub fn calm(seed: u64, nodes: usize, size: usize, store: bool) -> Self {
        Self {
            seed,
            nodes,
            size,
            store,
            starts: vec![0; nodes],
            faults: Vec::new(),
            grace_ms: 20_000,
            sized: false,
            keeps: None,
            newcomers: 0,
            repairs: false,
            tls: false,
        }
    }

    /// A schedule whose kind depends on the seed: of twelve, six are dense, four are long, one has a liar, and one has
    /// another subject.
    pub fn of(seed: u64) -> Self {
        match seed % 12 {
            0 | 3 | 6 | 9 => Self::long_with_orders(seed),
            1 => Self::with_a_liar(seed),
            7 => {
                let subject = usize::try_from(seed / 12).unwrap_or(0) % SUBJECTS.len();
                SUBJECTS[subject](seed)
            }
            _ => Self::random(seed),
        }
    }

    /// A dense schedule, all derived from the seed: faults while the cluster forms, or right after.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_0fa1_1f00_d5e7);
        let (nodes, size) = match rng.below(20) {
            0 => (1, 1),
            1 => (3, 1),
            2 | 3 => (4, 3),
            4 => (5, 3),
            5 => (5, 5),
            _ => (3, 3),
        };
        let store = rng.chance(35);
        let together = rng.chance(60);
        let starts = (0..nodes)
            .map(|_| {
                if together {
                    rng.below(300)
                } else {
                    rng.below(12_000)
                }
            })
            .collect();
        let mut schedule = Self {
            seed,
            nodes,
            size,
            store,
            starts,
            ..Self::calm(seed, nodes, size, store)
        };
        // While it forms, or once it has formed.
        let mut at = if rng.chance(40) {
            rng.below(3000)
        } else {
            rng.range(3000, 9000)
        };
        let count = rng.range(2, 9);
        let kinds = Kinds {
            empties: store && rng.chance(15),
            ruins: rng.chance(25),
        };
        for _ in 0..count {
            let fault = kinds.pick(&mut rng, &schedule);
            schedule.faults.push((at, fault));
            at += match rng.below(4) {
                0 => rng.below(60),
                1 => rng.below(600),
                2 => rng.below(2500),
                _ => rng.below(9000),
            };
        }
        schedule
    }

    /// One node lies once the cluster has formed. Agents, etcds and links fail meanwhile, another node loses its data,
    /// somebody forges records in the store, and people give orders.
    pub fn with_a_liar(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x011e_5011_e501_1e50);
        let (nodes, size) = match rng.below(8) {
            0 => (3, 1),
            1 => (5, 5),
            2 => (4, 3),
            _ => (3, 3),
        };
        let mut schedule = Self {
            repairs: rng.chance(20),
            ..Self::calm(seed, nodes, size, rng.chance(40))
        };
        let liar = rng.index(nodes);
        let mut at = rng.range(9000, 14_000);
        schedule.faults.push((at, Fault::Lies(liar)));
        for _ in 0..rng.range(1, 7) {
            at += rng.below(5000);
            let (a, b) = (rng.index(nodes), rng.index(nodes));
            let fault = match rng.below(24) {
                0..4 => network(&mut rng, a, b),
                4 | 5 => Fault::Mend,
                6 | 7 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
                8 | 9 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
                10 | 11 => Fault::AgentStops(a, rng.below(10_000)),
                12 | 13 => Fault::PowerOff(a, rng.below(5000)),
                14 | 15 if schedule.store => Fault::Restore(a),
                16 if schedule.store => Fault::ForgesRecord(1 + rng.below(2) * rng.below(1500)),
                // Always the same one, so that the liar's member and the others' stay a quorum.
                17 if size > 1 => Fault::Wipe((liar + 1) % nodes),
                18 | 19 => order_during_lies(&mut rng, &schedule, liar, a),
                _ => Fault::KillEtcd(a),
            };
            schedule.faults.push((at, fault));
        }
        // The node keeps lying for a while after the last other fault.
        schedule.faults.push((at + 30_000, Fault::Mend));
        schedule
    }

    /// Hosts reboot one after the other under the reboot lock, while agents, etcds and links fail, and people
    /// give orders.
    pub fn with_reboots(seed: u64) -> Self {
        Self::with_orders(seed, 0x0b00_7b00_70b0_07b0, |rng, nodes, a, b| {
            match rng.below(32) {
                0..9 => Fault::RebootLock(a),
                9..14 => Fault::Reboot(a, rng.below(9000)),
                14..17 => Fault::ReleaseLock(a),
                17 => Fault::ReleaseLockOf(a, b),
                18 => network(rng, a, b),
                19 => Fault::Mend,
                20 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
                21 | 22 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
                23 => Fault::AgentStops(a, rng.below(10_000)),
                24 => Fault::RestartAll(a),
                25 | 26 => Fault::MoveLeader(a, None),
                27 => Fault::PowerOff(a, rng.below(5000)),
                28 if nodes > 1 => Fault::Reinstall(a),
                29 if nodes > 3 => Fault::Out(a, b),
                30 => Fault::SetSize(a, 1 + rng.index(nodes)),
                _ => Fault::KillEtcd(a),
            }
        })
        .0
    }

    /// etcd is upgraded, step by step, while agents, etcds, links and versions of etcd fail, packages restart
    /// etcd, and people cancel and give other orders.
    pub fn with_upgrades(seed: u64) -> Self {
        let pick = |rng: &mut Rng, nodes, a, b| match rng.below(32) {
            0..8 => Fault::Upgrade(a, rng.index(4)),
            8 => Fault::Downgrade(a, rng.index(3)),
            9..12 => Fault::CancelUpgrade(a),
            12 | 13 => Fault::BreakVersion(rng.index(3)),
            14 if rng.chance(50) => Fault::BreakVersion(9),
            14 => Fault::InstallEtcd(1),
            15 => network(rng, a, b),
            16 | 17 => Fault::Mend,
            18 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
            19 | 20 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
            21 => Fault::AgentStops(a, rng.below(10_000)),
            22 => Fault::RestartAll(a),
            23 => Fault::MoveLeader(a, None),
            24 | 25 => Fault::RestartByOthers(a),
            26 => Fault::PowerOff(a, rng.below(5000)),
            27 if nodes > 1 => Fault::Reinstall(a),
            31 if nodes > 1 => Fault::Wipe(0),
            28 if nodes > 3 => Fault::Out(a, b),
            28 => Fault::FollowPackage(a),
            29 => Fault::Pause(a),
            30 => Fault::Resume(a),
            _ => Fault::KillEtcd(a),
        };
        let (mut schedule, end) = Self::with_orders(seed, 0x0e7c_d0e7_cd0e_7cd0, pick);
        schedule.faults.push((end, Fault::Resume(0)));
        schedule
    }

    /// Databases get free space or fill up, and etcd is defragmented, by orders and by the agents themselves,
    /// while agents, etcds and links fail and etcd is restarted.
    pub fn with_little_space(seed: u64) -> Self {
        let broken = |how| Broken {
            call: Call::Defrag,
            how,
            times: Some(1),
        };
        let pick = |rng: &mut Rng, nodes, a, b| match rng.below(32) {
            0..7 => Fault::Fragments(a),
            7..9 => Fault::FillsUp,
            9..12 => Fault::DefragAll(a),
            12 => Fault::CancelDefrag(a),
            13 => Fault::Breaks(a, broken(How::Refused)),
            14 => Fault::Breaks(a, broken(How::AnswerLost)),
            15 => network(rng, a, b),
            16 | 17 => Fault::Mend,
            18 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
            19..22 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
            22 => Fault::AgentStops(a, rng.below(10_000)),
            23 => Fault::RestartAll(a),
            24 => Fault::MoveLeader(a, None),
            25 => Fault::RestartByOthers(a),
            26 => Fault::PowerOff(a, rng.below(5000)),
            27 if nodes > 1 => Fault::Reinstall(a),
            28 => Fault::RebootLock(a),
            29 => Fault::Reboot(a, rng.below(9000)),
            30 => Fault::ReleaseLock(a),
            _ => Fault::KillEtcd(a),
        };
        Self::with_orders(seed, 0x5bac_e5ba_ce5b_ace5, pick).0
    }

    /// The data of members differs from the others' and is rebuilt from them, while agents, etcds and links fail.
    pub fn with_differences(seed: u64) -> Self {
        let pick = |rng: &mut Rng, nodes, a, b| match rng.below(24) {
            0..8 => Fault::Differs(a),
            8..10 => network(rng, a, b),
            10..12 => Fault::Mend,
            12 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
            13..16 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
            16 => Fault::AgentStops(a, rng.below(10_000)),
            17 => Fault::RestartAll(a),
            18 => Fault::MoveLeader(a, None),
            19 => Fault::PowerOff(a, rng.below(5000)),
            20 if nodes > 1 => Fault::Reinstall(a),
            21 => Fault::Wipe(0),
            _ => Fault::KillEtcd(a),
        };
        let schedule = Self::with_orders(seed, 0xd1ff_e2e4_d1ff_e2e4, pick).0;
        Self {
            repairs: true,
            ..schedule
        }
    }

    /// The cluster moves between versions, while agents, etcds and links fail, and people cancel.
    pub fn with_moves(seed: u64) -> Self {
        let pick = |rng: &mut Rng, nodes, a, b| match rng.below(28) {
            0..7 => Fault::Move(a, rng.index(4)),
            7..9 => network(rng, a, b),
            9..12 => Fault::Mend,
            12 => Fault::Noise(rng.below(20), rng.below(40), rng.below(400)),
            13..16 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
            16 => Fault::AgentStops(a, rng.below(10_000)),
            17 => Fault::RestartAll(a),
            18 => Fault::MoveLeader(a, None),
            19 => Fault::PowerOff(a, rng.below(5000)),
            20 if nodes > 1 => Fault::Reinstall(a),
            21 => Fault::Upgrade(a, rng.index(4)),
            22 => Fault::CancelUpgrade(a),
            23 => Fault::Backup(a),
            24 | 25 => Fault::CancelMove(a),
            _ => Fault::KillEtcd(a),
        };
        let (schedule, _) = Self::with_orders(seed, 0x0e7c_d0e7_cd0e_7cd0, pick);
        Self {
            store: true,
            ..schedule
        }
    }

    /// Some faults and orders at random times on a small cluster that has formed. `pick` chooses each, given the
    /// number of nodes and two nodes. Also the time after the last one. `salt` distinguishes the kinds.
    fn with_orders(
        seed: u64,
        salt: u64,
        pick: impl Fn(&mut Rng, usize, usize, usize) -> Fault,
    ) -> (Self, u64) {
        let mut rng = Rng::new(seed ^ salt);
        let (nodes, size) = match rng.below(8) {
            0 => (1, 1),
            1 => (5, 5),
            2 => (4, 3),
            _ => (3, 3),
        };
        let mut schedule = Self::calm(seed, nodes, size, rng.chance(20));
        schedule.grace_ms = 3000;
        let mut at = rng.range(9000, 16_000);
        for _ in 0..rng.range(3, 14) {
            let (a, b) = (rng.index(nodes), rng.index(nodes));
            let fault = pick(&mut rng, nodes, a, b);
            schedule.faults.push((at, fault));
            at += match rng.below(3) {
                0 => rng.below(100),
                1 => rng.below(1500),
                _ => rng.below(9000),
            };
        }
        (schedule, at)
    }

    /// The time of the last fault.
    pub fn end(&self) -> u64 {
        self.faults.iter().map(|(at, _)| *at).max().unwrap_or(0)
    }
}

/// The kinds of faults in one schedule. Some combinations are more than the design promises to survive.
struct Kinds {
    /// The store may be emptied. Then no agent loses its memory: a new memory would trust the empty store.
    empties: bool,
    /// Disks of more than one host may be lost.
    ruins: bool,
}

impl Kinds {
    fn pick(&self, rng: &mut Rng, schedule: &Schedule) -> Fault {
        let (a, b) = (rng.index(schedule.nodes), rng.index(schedule.nodes));
        // Without `ruins` all losses of data and memory hit one host.
        let victim = if self.ruins { a } else { 0 };
        match rng.below(100) {
            0..12 => network(rng, a, b),
            12..17 => Fault::Mend,
            17..20 => Fault::Noise(rng.below(40), rng.below(40), rng.below(800)),
            20..38 => Fault::AgentDies(a, u32::try_from(rng.below(25)).unwrap_or(0)),
            38..42 => Fault::AgentStops(a, rng.below(20_000)),
            42..47 if !self.empties && (schedule.nodes > 1 || schedule.store) => Fault::Reinstall(victim),
            42..54 => Fault::PowerOff(a, rng.below(9000)),
            62..70 => Fault::Wipe(victim),
            70..72 => Fault::Corrupt(victim),
            72..74 => Fault::Copy(victim),
            74..76 => Fault::SetBack(victim),
            76..79 => Fault::Clock(a, i64::try_from(rng.below(240_000)).unwrap_or(0) - 120_000),
            79..82 => Fault::Stop(a),
            82..84 => Fault::Start(a),
            84 => Fault::Mask(a),
            85 => Fault::Pause(a),
            86 => Fault::Resume(a),
            87 if a != b && !self.empties => Fault::Without(a, b),
            88..92 => Fault::Store(weather(rng)),
            92 if self.empties => Fault::EmptyStore,
            93 | 94 => Fault::Backup(a),
            95 => Fault::RestartAll(a),
            96..100 if schedule.store => Fault::Restore(a),
            54 => Fault::RestartOne(a, b),
            55 if rng.chance(60) => Fault::DefragAll(a),
            55 => Fault::CancelDefrag(a),
            // 56..62, and faults that this schedule does not allow.
            _ => Fault::KillEtcd(a),
        }
    }
}

/// An order that people type while a node lies. They order out only that node, at another one.
fn order_during_lies(rng: &mut Rng, schedule: &Schedule, liar: usize, a: usize) -> Fault {
    let other = (liar + 1 + rng.index(schedule.nodes - 1)) % schedule.nodes;
    match rng.below(8) {
        0 => Fault::Pause(a),
        1 => Fault::Resume(a),
        2 | 3 => Fault::RestartAll(a),
        4 => Fault::Out(other, liar),
        5 => Fault::MoveLeader(a, None),
        6 if schedule.store => Fault::Backup(a),
        _ => Fault::RestartOne(a, other),
    }
}

/// A random behaviour of the store.
pub(crate) fn weather(rng: &mut Rng) -> Weather {
    match rng.below(4) {
        0 => Weather::Down,
        1 => Weather::Slow,
        2 => Weather::Mute,
        _ => Weather::Fair,
    }
}

/// Cuts a link between two hosts. Isolates the host if both are the same.
pub(crate) fn network(rng: &mut Rng, a: usize, b: usize) -> Fault {
    if a == b {
        return Fault::Isolate(a);
    }
    let plane = match rng.below(4) {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    };
    Fault::Cut(a, b, plane)
}
