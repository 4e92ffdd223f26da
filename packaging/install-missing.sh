#!/bin/sh
# install-missing.sh PACKAGE:PROGRAM...
#
# Installs the Debian packages of which this machine lacks the program. A path in place of a program's name is a file.
set -eu

missing=
for pair; do
    program=${pair#*:}
    case $program in
        /*) [ -e "$program" ] ;;
        *) command -v "$program" >/dev/null ;;
    esac || missing="$missing ${pair%%:*}"
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
