#!/bin/bash
# Compiles a crate of the workspace, and checks it with clippy: `make test` has cargo run this instead of rustc
# (RUSTC_WORKSPACE_WRAPPER). `cargo clippy` would first check all dependencies, and a build cannot use the result: on a
# new machine that takes seven minutes of processor time. The compiler's output counts, clippy's is thrown away. A
# warning of clippy is an error.
set -eu

"$@"

args=()
out= source=
while [ $# -gt 0 ]; do
    case $1 in
        --emit=*) set -- --emit=metadata "${@:2}" ;;
        # Cargo starts to compile what depends on a crate when it is told of the crate's metadata. It is told once.
        --json=*) set -- "${1//,artifacts/}" "${@:2}" ;;
        --out-dir)
            out=$(mktemp -d)
            trap 'rm -rf "$out"' EXIT
            set -- --out-dir "$out" "${@:3}"
            args+=("$1")
            shift
            ;;
        *.rs) source=$1 ;;
    esac
    args+=("$1")
    shift
done
# Cargo also asks the compiler about itself, with neither a file nor a directory.
if [ -z "$out" ] || [ -z "$source" ]; then exit 0; fi
# The way in which `cargo clippy` tells clippy-driver what follows its `--`.
CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ clippy-driver "${args[@]}"
