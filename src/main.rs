//! Wiring and exit codes only.

use std::process::ExitCode;

use etcd_agent::cli::{self, Cli};

fn main() -> ExitCode {
    cli::main(Cli::of_process())
}
