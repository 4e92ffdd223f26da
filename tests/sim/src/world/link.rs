//! Reachability: each direction separately, for agents and for etcd.

/// The processes that exchange the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// Between agents.
    Agents,
    /// Between etcds.
    Etcd,
}

/// The network between the hosts.
#[derive(Debug, Clone)]
pub struct Links {
    cut: [Vec<Vec<bool>>; 2],
    /// Messages of a hundred that are lost.
    pub loss: u64,
    /// Messages of a hundred that arrive twice.
    pub twice: u64,
    /// The maximum time that a message takes, in milliseconds. Messages may be reordered within it.
    pub delay: u64,
    /// When the links were last changed.
    pub changed: u64,
}

impl Links {
    /// All hosts reach all others.
    pub fn new(hosts: usize) -> Self {
        let whole = vec![vec![false; hosts]; hosts];
        Self {
            cut: [whole.clone(), whole],
            loss: 0,
            twice: 0,
            delay: 3,
            changed: 0,
        }
    }

    fn plane(plane: Plane) -> usize {
        match plane {
            Plane::Agents => 0,
            Plane::Etcd => 1,
        }
    }

    /// Cuts one direction.
    pub fn cut(&mut self, plane: Plane, from: usize, to: usize) {
        self.cut[Self::plane(plane)][from][to] = true;
    }

    /// Repairs everything.
    pub fn mend(&mut self) {
        *self = Self::new(self.cut[0].len());
    }

    /// Whether a message arrives.
    pub fn open(&self, plane: Plane, from: usize, to: usize) -> bool {
        !self.cut[Self::plane(plane)][from][to]
    }

    /// Whether all messages arrive everywhere.
    pub fn all_open(&self, plane: Plane) -> bool {
        self.loss == 0 && self.cut[Self::plane(plane)].iter().flatten().all(|cut| !cut)
    }

    /// Whether a connection works.
    pub fn both(&self, plane: Plane, a: usize, b: usize) -> bool {
        self.open(plane, a, b) && self.open(plane, b, a)
    }
}
