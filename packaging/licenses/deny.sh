#!/bin/sh
# deny.sh [CHECK...]
#
# Checks the crates of Cargo.lock by deny.toml; all checks if none is named. `advisories` fetches the database of known
# vulnerabilities from github.com. cargo-deny is installed into target/tools/cargo/ if this machine has none.
set -eu

cd "$(dirname "$0")/../.."
PATH=$PATH:$(packaging/cargo-tool.sh cargo-deny)
cargo deny --locked --workspace check --hide-inclusion-graph "$@"
