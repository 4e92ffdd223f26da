#!/bin/sh
# Puts promtool into target/tools/, if this machine has none. Debian has it in the package `prometheus`. Installing that
# package would start a Prometheus and add its user, so only the one program is taken out of it.
set -eu

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
if command -v promtool >/dev/null || [ -x "$target/tools/promtool" ]; then
    exit 0
fi
[ -e /usr/bin/apt-get ] || {
    echo "promtool is missing: install it into \$PATH (only apt-get is known here)" >&2
    exit 1
}
mkdir -p "$target/tools"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
download() { apt-get -q -o APT::Sandbox::User=root download prometheus; }
download || { apt-get update -q && download; }
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mv usr/bin/promtool "$target/tools/promtool"
