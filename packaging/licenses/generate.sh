#!/bin/sh
# Makes THIRD-PARTY.txt: the crates that the program is linked with, and their licenses. Fails if a crate has another
# license than those of about.toml. cargo-about is installed into target/tools/cargo/ if this machine has none.
set -eu

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
tools=$(packaging/cargo-tool.sh cargo-about)
export PATH="$PATH:$tools"
made=$target/THIRD-PARTY.txt
cargo about generate --locked --fail -c packaging/licenses/about.toml -o "$made" packaging/licenses/about.hbs
# The texts of the licenses have carriage returns and blanks at the ends of lines.
sed 's/[[:space:]]*$//' "$made" >packaging/licenses/THIRD-PARTY.txt
packaging/licenses/check.sh
