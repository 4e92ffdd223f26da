#!/bin/sh
# Builds target/deb/etcd-agent_<version>_<arch>.deb from this tree. cargo builds incrementally. Nothing is written
# into the directories of the sources.
#   PROFILE=dev      package a debug build (quick, for trying things)
#   BINARY=FILE      package this program, and build nothing
#   ARCH=arm64       cross-compile
#   SUFFIX=+next1    add to the version (to try an upgrade)
# Unless it is a debug build or BINARY, the program contains the list of its crates (cargo-auditable).
# The symbols go into etcd-agent-dbgsym, except those of a debug build and of BINARY, which are packed quickly.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
own=$(dpkg --print-architecture)
arch=${ARCH:-$own}
profile=${PROFILE:-release}
if [ -n "${BINARY:-}" ]; then
    binary=$BINARY
else
    if [ "$arch" != "$own" ]; then
        TRIPLE=$(packaging/debian/triple.sh "$arch")
        export TRIPLE
    fi
    [ "$profile" = dev ] || PATH=$PATH:$(packaging/cargo-tool.sh cargo-auditable)
    binary=$(PROFILE=$profile packaging/build.sh)
fi
if [ -n "${BINARY:-}" ] || [ "$profile" = dev ]; then
    export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }noautodbgsym"
    export DPKG_DEB_COMPRESSOR_LEVEL=2
fi

stage=$target/deb/build
rm -rf "$stage"
mkdir -p "$stage/packaging"
cp -a README.md CHANGELOG.md debian units docs "$stage/"
(cd packaging && cp -a reasons.sh completions firewalld prometheus grafana needrestart unattended-upgrades licenses make-certificates \
    "$stage/packaging/")

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
sed -i "1s/(.*)/($version${SUFFIX:-})/" "$stage/debian/changelog"

# The compiler is not necessarily Debian's (see debian/control), and cross-compiling needs the other one's C library.
profiles=pkg.etcd-agent.rustup
[ "$arch" = "$own" ] || profiles=$profiles,cross,nocheck
binary=$(realpath "$binary")
(cd "$stage" && ETCD_AGENT_BINARY=$binary \
    dpkg-buildpackage -b -us -uc -a"$arch" -P"$profiles" >"$target/deb/build.log" 2>&1) || {
    tail -30 "$target/deb/build.log" >&2
    exit 1
}
rm -rf "$stage"
[ -n "${BINARY:-}" ] || [ "$profile" = dev ] || packaging/debian/crates-listed.sh \
    "$target/deb/etcd-agent_$version${SUFFIX:-}_$arch.deb"
ls "$target/deb/etcd-agent_$version${SUFFIX:-}_$arch.deb"
