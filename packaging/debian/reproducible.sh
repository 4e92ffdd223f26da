#!/bin/sh
# Builds the package twice, in two directories with different names, and compares the sums. PROFILE as for deb.sh. Needs
# about 4 GB below $TMPDIR.
set -eu

cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Installed once, not in each tree.
PATH=$PATH:$(packaging/cargo-tool.sh cargo-auditable)
for tree in "$work/one" "$work/another-directory/two"; do
    mkdir -p "$tree"
    packaging/files.sh | tar -c --null -T - | tar -x -C "$tree"
    (cd "$tree" && CARGO_TARGET_DIR=$tree/target packaging/deb.sh >/dev/null)
    (cd "$tree/target/deb" && sha256sum -- *.deb) >>"$work/sums"
    mkdir -p "$work/packages/$(basename "$tree")"
    mv "$tree"/target/deb/*.deb "$work/packages/$(basename "$tree")/"
    rm -rf "$tree"
done
sort "$work/sums"
# Each sum is there twice.
if [ -n "$(sort "$work/sums" | uniq -u)" ]; then
    keep=${TMPDIR:-/tmp}/etcd-agent-not-reproducible
    rm -rf "$keep"
    mv "$work/packages" "$keep"
    echo "The packages differ. They are kept in $keep: compare them with diffoscope." >&2
    exit 1
fi
echo "The packages are equal."
