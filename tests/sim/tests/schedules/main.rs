//! Schedules of the simulator: random ones, and directed ones for what random ones seldom reach. All tests are
//! one program: it is compiled once, and the tests of different files run concurrently.

mod addresses;
mod backups;
mod by_hand;
mod by_seed;
mod checks;
mod coverage;
mod deaths;
mod despite_data;
mod differs;
mod electorate;
mod founder;
mod fresh;
mod gate;
mod histories;
mod liar;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod orders;
mod other_store;
mod random;
mod reboots;
mod scenarios;
mod silent;
mod space;
mod stops;
mod tls_files;
mod unknown;
mod upgrades;
