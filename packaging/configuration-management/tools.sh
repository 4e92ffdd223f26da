#!/bin/sh
# Installs what check.sh and the lab's tests of Ansible and Puppet run on this machine, if it is missing.
set -eu

missing=
# A program of each package shows that it is installed.
for pair in ansible-core:ansible-playbook ansible-lint:ansible-lint puppet-agent:puppet puppet-lint:puppet-lint \
    ruby-rspec-puppet:rspec-puppet-init openssh-client:ssh; do
    command -v "${pair#*:}" >/dev/null || missing="$missing ${pair%:*}"
done
[ -n "$missing" ] || exit 0
[ -e /usr/bin/apt-get ] || {
    echo "install$missing (only apt-get is known here)" >&2
    exit 1
}
apt-get update -q
# shellcheck disable=SC2086  # several words
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
