#!/bin/sh
# Builds the program for packages, and prints its path. No path of this machine is left in it, so that builds in
# different directories are equal (`make reproducible`). If cargo-auditable is installed, the program contains the list
# of its crates, which `cargo audit bin` and scanners of images read: `make deb` and `make rpm` install it before.
#   PROFILE=dev                        a debug build: quick, and with this machine's paths
#   TRIPLE=aarch64-unknown-linux-gnu   for another processor
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
profile=${PROFILE:-release}

set -- --locked --profile "$profile" --package etcd-agent --bin etcd-agent
directory=$target
if [ -n "${TRIPLE:-}" ]; then
    set -- "$@" --target "$TRIPLE"
    directory=$target/$TRIPLE
    linker=CARGO_TARGET_$(echo "$TRIPLE" | tr a-z- A-Z_)_LINKER
    # Debian's name of the cross compiler: aarch64-linux-gnu-gcc.
    export "$linker=$(echo "$TRIPLE" | sed 's/-unknown-/-/')-gcc"
fi
if [ "$profile" = dev ]; then
    cargo build "$@" >&2
    echo "$directory/debug/etcd-agent"
    exit 0
fi

# rustc and gcc apply the last prefix that matches, and the other two can be inside the sources.
prefixes="$PWD=. ${CARGO_HOME:-$HOME/.cargo}=/cargo $target=/target"
for prefix in $prefixes; do
    RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$prefix"
    CFLAGS="${CFLAGS:-} -ffile-prefix-map=$prefix"
done
# If the sources of the standard library are installed, rustc names them in place of this.
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(rustc -vV |
    sed -n 's/^commit-hash: //p')"
export RUSTFLAGS CFLAGS

auditable=
if cargo auditable --version >/dev/null 2>&1; then auditable=auditable; fi
# shellcheck disable=SC2086  # nothing, or a word
cargo $auditable build "$@" >&2
program=$directory/$profile/etcd-agent
if [ -n "$auditable" ] && ! readelf --sections --wide "$program" | grep -q '\.dep-v0'; then
    echo "$program: cargo-auditable is installed, and the section .dep-v0 is missing" >&2
    exit 1
fi
echo "$program"
