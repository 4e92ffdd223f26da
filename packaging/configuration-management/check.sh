#!/bin/bash
# Checks the Ansible collection and the Puppet module: their linters, their syntax and their unit tests. `make test`
# runs it. The last line is that of a test program, so that tests/run.sh can add it up.
set -euo pipefail

cd "$(dirname "$0")/../.."
for program in ansible-playbook ansible-lint puppet puppet-lint rspec; do
    command -v "$program" >/dev/null || {
        echo "$program is missing. Run: make management-tools" >&2
        exit 1
    }
done
# The Python that Ansible is installed for.
python=$(sed -n '1s/^#!//p' "$(command -v ansible-playbook)")
cases=$PWD/packaging/configuration-management/toml-cases.json
unit=$PWD/packaging/configuration-management/test_to_toml.py
module=$PWD/packaging/puppet/etcd_agent
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# What the tools keep goes there, and the collection is checked as it is installed: its names are full names.
export HOME=$work LANG=C.UTF-8 ANSIBLE_COLLECTIONS_PATH=$work/collections ANSIBLE_LOCAL_TEMP=$work/tmp
export ANSIBLE_NOCOLOR=1 NO_COLOR=1
collection=$work/collections/ansible_collections/etcd_agent/etcd_agent

# check COUNT WHAT COMMAND...: the command passes COUNT tests, or it fails and its output is shown.
check() {
    local count=$1 what=$2
    shift 2
    if "$@" >"$work/out" 2>&1; then
        echo "test $what ... ok"
        passed=$((passed + count))
    else
        echo "test $what ... FAILED"
        cat "$work/out"
        failed=$((failed + 1))
    fi
}

install_collection() {
    mkdir -p "$work/collections"
    ansible-galaxy collection install packaging/ansible -p "$work/collections"
    test -e "$collection/MANIFEST.json"
}

lint_collection() {
    cp -r packaging/ansible "$work/lint"
    (cd "$work/lint" && ansible-lint --offline --profile production --strict)
}

syntax() {
    printf 'etcd:\n  hosts:\n    n1:\n      agent_config: {}\n' >"$work/inventory.yml"
    for playbook in install upgrade reboot; do
        ansible-playbook --syntax-check -i "$work/inventory.yml" "etcd_agent.etcd_agent.$playbook"
    done
}

# The options of the role, its defaults and its page name the same variables.
variables() {
    $python - "$collection" <<'PY'
import re, sys, yaml
root = sys.argv[1]
read = lambda path: open(f"{root}/{path}", encoding="utf-8").read()
options = yaml.safe_load(read("roles/agent/meta/argument_specs.yml"))["argument_specs"]["main"]["options"]
defaults = yaml.safe_load(read("roles/agent/defaults/main.yml"))
page = re.findall(r"^\| `(agent_\w+)` \|", read("README.md"), re.M)
assert {key: value["default"] for key, value in options.items() if "default" in value} == defaults, defaults
assert sorted(page) == sorted(options), (page, list(options))
PY
}

filter() {
    $python "$unit" "$collection/plugins/filter/to_toml.py" "$cases"
    ansible-doc -t filter etcd_agent.etcd_agent.to_toml | grep -q "Renders a dictionary as TOML"
}

# Prints the number of examples that passed. rspec-puppet links the module into spec/fixtures, so it gets a copy.
examples() {
    mkdir "$work/packaging"
    cp -r packaging/puppet packaging/configuration-management "$work/packaging"
    (cd "$work/packaging/puppet/etcd_agent" && rspec --no-color spec/classes spec/functions) >"$work/rspec" 2>&1 || {
        cat "$work/rspec"
        return 1
    }
    sed -n 's/^\([0-9]*\) examples, 0 failures$/\1/p' "$work/rspec"
}

module() {
    find "$module" -name '*.pp' -exec puppet parser validate {} +
    $python -m json.tool "$module/metadata.json" >/dev/null
    puppet-lint --fail-on-warnings --relative --no-140chars-check "$module"
}

check 1 "the collection can be installed" install_collection
check 1 "ansible-lint, profile production" lint_collection
check 3 "the syntax of the playbooks" syntax
check 1 "the role's variables are specified and documented" variables
check 6 "the filter to_toml" filter
check 1 "the Puppet module is valid, and puppet-lint" module
count=$(examples) || { echo "$count"; count=; }
check "${count:-0}" "rspec-puppet" test -n "$count"

result=ok
[ "$failed" = 0 ] || result=FAILED
echo
echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ "$failed" = 0 ]
