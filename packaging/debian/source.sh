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
packaging/files.sh >"$target/deb/files"
tar -c --null -T "$target/deb/files" | tar -x -C "$tree"
(cd "$target/deb" && dpkg-source --build "$tree" >source.log 2>&1) || {
    cat "$target/deb/source.log" >&2
    exit 1
}
rm -rf "$target/deb/source" "$target/deb/files"
ls "$target/deb/etcd-agent_$version.dsc"
