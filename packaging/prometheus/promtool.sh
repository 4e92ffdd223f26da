#!/bin/sh
# promtool.sh [DIRECTORY]
#
# Puts promtool into target/tools/, if this machine has none; with DIRECTORY, promtool and prometheus into that. Debian
# has both in the package `prometheus`. Installing that package would start a Prometheus and add its user, so only the
# programs are taken out of it.
set -eu

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
to=${1:-$target/tools}
if [ $# = 0 ] && { command -v promtool >/dev/null || [ -x "$to/promtool" ]; }; then
    exit 0
fi
[ -e /usr/bin/apt-get ] || {
    echo "prometheus is missing: install promtool into \$PATH (only apt-get is known here)" >&2
    exit 1
}
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
download() { apt-get -q -o APT::Sandbox::User=root download prometheus; }
download || { apt-get update -q && download; }
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool ./usr/bin/prometheus
mv usr/bin/promtool "$to/promtool"
[ $# = 0 ] || mv usr/bin/prometheus "$to/prometheus"
