//! An agent dies at the steps of an order, or its host loses power: the next run finishes the work or undoes it, and no
//! two members are down by the agents' doing, which the world checks itself (rule 4).

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// Some work on three nodes, in which agents and hosts are to die.
struct Work {
    what: &'static str,
    /// The world in which it is done.
    base: Schedule,
    /// What begins it, in milliseconds.
    begins: Vec<(u64, Fault)>,
    /// How long it takes without deaths, in milliseconds.
    takes: u64,
    /// The crossings of a port at which an agent dies: each `step`th one before `most`, which is about how many there
    /// are.
    most: u32,
    step: usize,
    /// What each history, or the things seen, has to contain.
    must: &'static str,
    /// In how many schedules it may have to be ordered again. An agent that dies early forgets its order, and a silent
    /// one lets an upgrade be refused.
    lost: usize,
}

impl Work {
    fn at(&self) -> u64 {
        self.begins.iter().map(|(at, _)| *at).min().unwrap_or_default()
    }

    /// The outcome, and whether the work was done. It may break no rule. People repair nothing, and give no order
    /// again, before the agents have had time.
    fn run(&self, death: &(u64, Fault), again: bool) -> (Outcome, bool) {
        let mut schedule = self.base.clone();
        schedule.faults.extend(self.begins.iter().cloned());
        schedule.faults.push(death.clone());
        let mut end = self.at() + self.takes + 15_000;
        schedule.faults.push((end, Fault::Mend));
        if again {
            // Longer than a person waits for an answer.
            end += 45_000;
            for (_, order) in &self.begins {
                end += 1000;
                schedule.faults.push((end, order.clone()));
            }
        }
        schedule.faults.sort_by_key(|(at, _)| *at);
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{}: {schedule:?}\n{history}", self.what);
        assert_eq!(outcome.excuse, None, "{}: {schedule:?}\n{history}", self.what);
        let done = history.contains(self.must) || outcome.seen.contains(self.must);
        assert!(
            done || !again,
            "{}: no {}: {schedule:?}\n{history}",
            self.what,
            self.must
        );
        (outcome, done)
    }

    /// The outcome, and whether it had to be ordered again.
    fn finishes(&self, death: &(u64, Fault)) -> (Outcome, bool) {
        let (outcome, done) = self.run(death, false);
        if !done {
            self.run(death, true);
        }
        (outcome, !done)
    }

    /// The agent of each node dies at these crossings, one death a schedule.
    fn agents_die(&self) {
        let mut lost = 0;
        for host in 0..self.base.nodes {
            let (mut died, mut runs) = (0, 0);
            for crossing in (0..self.most).step_by(self.step) {
                let (outcome, again) = self.finishes(&(self.at(), Fault::AgentDies(host, crossing)));
                let dies = |line: &String| line.contains("dies between two steps");
                died += usize::from(outcome.history.iter().any(dies));
                lost += usize::from(again);
                runs += 1;
            }
            assert!(
                died > runs / 2,
                "{}: the agent of host {host} died only {died} times of {runs}",
                self.what
            );
        }
        assert!(
            lost <= self.lost,
            "{}: the order was lost {lost} times",
            self.what
        );
    }

    /// Each host loses its power for a moment, at one of this many moments of the work a schedule.
    fn hosts_die(&self, moments: u64) {
        let mut lost = 0;
        for host in 0..self.base.nodes {
            for moment in 0..moments {
                // The hosts die at different moments.
                let share = moment * 3 + u64::try_from(host).unwrap_or_default();
                let at = self.at() + self.takes * share / (moments * 3);
                lost += usize::from(self.finishes(&(at, Fault::PowerOff(host, 2500))).1);
            }
        }
        assert!(
            lost <= self.lost,
            "{}: the order was lost {lost} times",
            self.what
        );
    }
}

fn upgrade() -> Work {
    Work {
        what: "upgrade",
        base: Schedule::calm(11, 3, 3, false),
        begins: vec![(12_000, Fault::Upgrade(0, 2))],
        takes: 3000,
        most: 90,
        step: 1,
        must: "order upgrade done",
        lost: 20,
    }
}

fn downgrade() -> Work {
    let mut base = Schedule::calm(12, 3, 3, false);
    base.faults.push((9000, Fault::InstallEtcd(2)));
    Work {
        what: "downgrade",
        base,
        begins: vec![(40_000, Fault::Downgrade(0, 1))],
        takes: 2500,
        most: 100,
        step: 1,
        must: "order downgrade done",
        lost: 20,
    }
}

/// From 3.5.30 to 3.7.3. A person who sees that the move was interrupted goes on, or cancels it.
fn moves() -> Work {
    Work {
        what: "move",
        base: Schedule::calm(13, 3, 3, true),
        begins: vec![(20_000, Fault::Move(0, 3))],
        takes: 2800,
        most: 280,
        step: 2,
        must: "etcd 3.7.3 of n1 starts",
        lost: 50,
    }
}

fn defragmentation() -> Work {
    Work {
        what: "defragmentation",
        base: Schedule::calm(14, 3, 3, false),
        begins: vec![(12_000, Fault::DefragAll(0))],
        takes: 6000,
        most: 70,
        step: 1,
        must: "order defrag done",
        lost: 10,
    }
}

fn no_space() -> Work {
    Work {
        what: "NOSPACE",
        base: Schedule::calm(15, 3, 3, false),
        begins: vec![(12_000, Fault::FillsUp)],
        takes: 6500,
        most: 80,
        step: 1,
        must: "event NOSPACE is disarmed",
        lost: 0,
    }
}

/// The hosts get the new authority one after the other.
fn authorities() -> Work {
    let hosts = [(12_000, 0), (12_700, 1), (13_400, 2)];
    let base = Schedule::calm(16, 3, 3, false);
    Work {
        what: "a change of authorities",
        base: Schedule { tls: true, ..base },
        begins: hosts.map(|(at, host)| (at, Fault::NewAuthorities(host))).to_vec(),
        takes: 3500,
        most: 70,
        step: 1,
        must: "",
        lost: 0,
    }
}

#[test]
fn s40_an_upgrade_survives_the_agents_death_at_its_steps() {
    upgrade().agents_die();
}

#[test]
fn s40_an_upgrade_survives_the_loss_of_a_hosts_power() {
    upgrade().hosts_die(15);
}

#[test]
fn s40_a_downgrade_survives_the_agents_death_at_its_steps() {
    downgrade().agents_die();
}

#[test]
fn s40_a_downgrade_survives_the_loss_of_a_hosts_power() {
    downgrade().hosts_die(15);
}

#[test]
fn s40_a_move_survives_the_agents_death_at_its_steps() {
    moves().agents_die();
}

#[test]
fn s40_a_move_survives_the_loss_of_a_hosts_power() {
    moves().hosts_die(10);
}

#[test]
fn s40_a_defragmentation_survives_the_agents_death_at_its_steps() {
    defragmentation().agents_die();
}

#[test]
fn s40_a_defragmentation_survives_the_loss_of_a_hosts_power() {
    defragmentation().hosts_die(15);
}

#[test]
fn s40_the_way_back_from_no_space_survives_the_agents_death_at_its_steps() {
    no_space().agents_die();
}

#[test]
fn s40_the_way_back_from_no_space_survives_the_loss_of_a_hosts_power() {
    no_space().hosts_die(15);
}

#[test]
fn s40_a_change_of_authorities_survives_the_agents_death_at_its_steps() {
    authorities().agents_die();
}

#[test]
fn s40_a_change_of_authorities_survives_the_loss_of_a_hosts_power() {
    authorities().hosts_die(15);
}
