//! Numbers things: equal things have the same number, and each thing is stored once.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::symmetry::Renaming;

/// Maps numbers to things and things to numbers.
#[derive(Debug)]
pub(crate) struct Book<T> {
    numbers: HashMap<String, u32>,
    things: Vec<T>,
    /// For each renaming, a cache of the numbers of renamed things.
    renamed: Vec<Vec<Option<u32>>>,
}

impl<T: Serialize + DeserializeOwned> Book<T> {
    pub(crate) fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            things: Vec::new(),
            renamed: Vec::new(),
        }
    }

    pub(crate) fn number(&mut self, thing: T) -> u32 {
        let key = serde_json::to_string(&thing).unwrap();
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.things.len()).expect("fewer than 2^32 different things");
        self.numbers.insert(key, number);
        self.things.push(thing);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.things[number as usize]
    }

    /// The number of the thing with its nodes renamed. `which` is the index of the renaming in the list of
    /// all renamings.
    pub(crate) fn rename(&mut self, number: u32, which: usize, renaming: &Renaming) -> u32 {
        let at = number as usize;
        if let Some(Some(known)) = self.renamed.get(which).and_then(|row| row.get(at)) {
            return *known;
        }
        let text = serde_json::to_string(self.get(number)).unwrap();
        let renamed = self.number(serde_json::from_str(&renaming.apply(&text)).unwrap());
        if self.renamed.len() <= which {
            self.renamed.resize(which + 1, Vec::new());
        }
        let row = &mut self.renamed[which];
        if row.len() <= at {
            row.resize(at + 1, None);
        }
        row[at] = Some(renamed);
        renamed
    }
}
