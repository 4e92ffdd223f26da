#!/bin/sh
# Fails unless the program in this package contains the list of its crates, as cargo-auditable writes it.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb --fsys-tarfile "$1" | tar -x -C "$work" ./usr/bin/etcd-agent
readelf --sections --wide "$work/usr/bin/etcd-agent" >"$work/sections"
grep -q ' \.dep-v0 ' "$work/sections" || {
    echo "$1: /usr/bin/etcd-agent has no section .dep-v0, the list of its crates. Was it built by cargo-auditable?" >&2
    exit 1
}
