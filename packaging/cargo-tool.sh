#!/bin/sh
# cargo-tool.sh NAME VERSION [OPTION...]
#
# Installs this command of cargo into target/tools/cargo/, if this machine has none, and prints the directory to be put
# on the PATH. Options are those of `cargo install`.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
name=$1 version=$2
shift 2
bin=$target/tools/cargo/bin
if ! PATH="$PATH:$bin" command -v "$name" >/dev/null; then
    # What the caller builds with is for the agent.
    env -u RUSTFLAGS -u RUSTC_WORKSPACE_WRAPPER cargo install "$name" --version "$version" --locked "$@" \
        --root "$target/tools/cargo" --target-dir "$target/tools/build" >&2
fi
echo "$bin"
