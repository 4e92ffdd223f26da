#!/bin/sh
# Builds target/deb/etcd-agent_<version>_<arch>.deb from this tree. cargo builds incrementally. Nothing is written
# into the directories of the sources.
#   PROFILE=dev      package a debug build (quick, for trying things)
#   BINARY=FILE      package this binary, and build nothing
#   SUFFIX=+next1    add to the version (to try an upgrade)
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
profile=${PROFILE:-release}
if [ -n "${BINARY:-}" ]; then
    binary=$BINARY
else
    cargo build --locked --profile "$profile" --bin etcd-agent
    [ "$profile" = dev ] && profile=debug
    binary=$target/$profile/etcd-agent
fi

stage=$target/deb/build
rm -rf "$stage"
mkdir -p "$stage"
cp -a debian units "$stage/"
mkdir -p "$stage/packaging" && cp -a packaging/reasons.sh packaging/prometheus packaging/grafana packaging/needrestart \
    packaging/unattended-upgrades "$stage/packaging/"
cp -a docs "$stage/"
for file in README.md CHANGELOG.md; do
    [ ! -e "$file" ] || cp -a "$file" "$stage/"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
sed -i "1s/(.*)/($version${SUFFIX:-})/" "$stage/debian/changelog"

cp "$binary" "$stage/etcd-agent.bin"
strip "$stage/etcd-agent.bin"
(cd "$stage" && ETCD_AGENT_BINARY=$stage/etcd-agent.bin dpkg-buildpackage -b -us -uc -d >"$target/deb/build.log" 2>&1) || {
    tail -30 "$target/deb/build.log" >&2
    exit 1
}
rm -rf "$stage"
ls "$target/deb/etcd-agent_$version${SUFFIX:-}_$(dpkg --print-architecture).deb"
