#!/bin/sh
# cargo-tool.sh NAME
#
# Installs this command of cargo into target/tools/cargo/, if this machine has none, and prints the directory to be put
# on the PATH.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
name=$1
case $name in
    cargo-about) set -- --version 0.9.3 --features cli ;;
    cargo-auditable) set -- --version 0.7.7 ;;
    cargo-deny) set -- --version 0.20.2 ;;
    *)
        echo "cargo-tool.sh knows no $name: cargo-about, cargo-auditable or cargo-deny" >&2
        exit 1
        ;;
esac
bin=$target/tools/cargo/bin
if ! PATH="$PATH:$bin" command -v "$name" >/dev/null; then
    # What the caller builds with is for the agent.
    env -u RUSTFLAGS -u RUSTC_WORKSPACE_WRAPPER cargo install "$name" --locked "$@" \
        --root "$target/tools/cargo" --target-dir "$target/tools/build" >&2
fi
echo "$bin"
