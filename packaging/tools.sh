#!/bin/sh
# Installs what check.sh runs on this machine, if it is missing.
set -eu

exec "$(dirname "$0")/install-missing.sh" lintian:lintian man-db:man groff-base:groff rpm:rpmbuild rpmlint:rpmlint \
    systemd:systemd-analyze zsh:zsh fish:fish python3-minimal:python3
