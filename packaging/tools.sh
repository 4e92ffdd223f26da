#!/bin/sh
# Installs what check.sh runs on this machine, if it is missing.
set -eu

missing=
# A program of each package shows that it is installed.
for pair in lintian:lintian man-db:man groff-base:groff rpm:rpmbuild rpmlint:rpmlint systemd:systemd-analyze; do
    command -v "${pair#*:}" >/dev/null || missing="$missing ${pair%:*}"
done
[ -n "$missing" ] || exit 0
[ -e /usr/bin/apt-get ] || {
    echo "install$missing (only apt-get is known here)" >&2
    exit 1
}
apt-get update -q
# dpkg need not wait for the disk after each of a hundred small packages.
# shellcheck disable=SC2086  # several words
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-unsafe-io $missing
