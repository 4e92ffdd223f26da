//! Wiring and exit codes only.

use std::process::ExitCode;

use clap::Parser;
use etcd_agent::cli::{self, Cli};

fn main() -> ExitCode {
    cli::main(Cli::parse())
}
