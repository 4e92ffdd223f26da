#!/bin/sh
# Installs what check.sh and the lab's tests of Ansible and Puppet run on this machine, if it is missing.
set -eu

exec "$(dirname "$0")/../install-missing.sh" ansible-core:ansible-playbook ansible-lint:ansible-lint \
    puppet-agent:puppet puppet-lint:puppet-lint ruby-rspec-puppet:rspec-puppet-init openssh-client:ssh
