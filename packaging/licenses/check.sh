#!/bin/sh
# Checks that THIRD-PARTY.txt names each crate that the program is linked with, and no other version of it.
set -eu

cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# "name version" of each crate, for both processors.
linked() {
    for triple in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
        cargo tree --quiet --locked --package etcd-agent --edges "$1" --target "$triple" --prefix none --format '{p}'
    done | sed 's/ (.*//; s/ v/ /' | grep -v '^etcd-agent ' | LC_ALL=C sort -u
}
linked normal,no-proc-macro >"$work/linked"
linked normal >"$work/used"
sed -n 's/^    \([a-zA-Z0-9_-]* [0-9][^ ]*\)$/\1/p' packaging/licenses/THIRD-PARTY.txt | LC_ALL=C sort -u >"$work/listed"
LC_ALL=C comm -23 "$work/linked" "$work/listed" | sed 's/$/ is not in THIRD-PARTY.txt/' >"$work/wrong"
LC_ALL=C comm -13 "$work/used" "$work/listed" | sed 's/$/ is in THIRD-PARTY.txt and not in the program/' >>"$work/wrong"
if [ -s "$work/wrong" ]; then
    cat "$work/wrong"
    echo "Run: make licenses"
    exit 1
fi
