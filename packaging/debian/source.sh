#!/bin/sh
# Builds the source package into target/deb/ and prints the path of its .dsc.
set -eu

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
version=$(dpkg-parsechangelog -S Version)
tree=$target/deb/source/etcd-agent-$version
rm -rf "$target/deb/source"
mkdir -p "$tree"
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tree"
else
    tar -c --exclude ./target . | tar -x -C "$tree"
fi
(cd "$target/deb" && dpkg-source --build "$tree" >source.log 2>&1) || {
    cat "$target/deb/source.log" >&2
    exit 1
}
rm -rf "$target/deb/source"
ls "$target/deb/etcd-agent_$version.dsc"
