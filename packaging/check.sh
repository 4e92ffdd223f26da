#!/bin/bash
# Checks what packages are made of: the manual pages, the source package and the licenses of others.
# With packages as arguments it checks those: lintian, systemd-analyze. `make test` runs both. The last line is
# that of a test program, so that tests/run.sh can add it up.
set -euo pipefail

cd "$(dirname "$0")/.."
for program in lintian man groff systemd-analyze; do
    command -v "$program" >/dev/null || {
        echo "$program is missing. Run: make package-tools" >&2
        exit 1
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check WHAT COMMAND...: the command succeeds, or its output is shown.
check() {
    local what=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "test $what ... ok"
        passed=$((passed + 1))
    else
        echo "test $what ... FAILED"
        cat "$work/out"
        failed=$((failed + 1))
    fi
}

# A page as `man` shows it, without warnings.
page() {
    local said
    said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$1" 2>&1 >/dev/null)
    echo "$said"
    [ -z "$said" ]
}

run_lintian() { lintian --allow-root --no-tag-display-limit --fail-on error,warning "$1"; }

source_package() { run_lintian "$(packaging/debian/source.sh)"; }

# The units as systemd reads them in the package, and each page that they name. Of other packages they need targets.
units() {
    local root=$work/units here=/usr/lib/systemd/system
    mkdir "$root"
    dpkg-deb -x "$1" "$root"
    cp -a "$here"/*.target "$here"/*.slice "$here"/dbus.* "$here"/systemd-journald* "$root$here"
    MANPATH=$root/usr/share/man systemd-analyze verify --root="$root" $(cd "$root$here" && ls etcd-agent*.service)
}

if [ $# = 0 ]; then
    packaging/reasons.sh docs/reasons.md >"$work/etcd-agent-reasons.7"
    for file in docs/man/etcd-agent.8 docs/man/etcd-agent.toml.5 "$work/etcd-agent-reasons.7"; do
        check "man --warnings: $(basename "$file")" page "$file"
    done
    check "the licenses of the crates are listed" packaging/licenses/check.sh
    check "lintian: the source package" source_package
fi
for package in "$@"; do
    case $package in
        *.deb)
            check "lintian: $(basename "$package")" run_lintian "$package"
            check "systemd-analyze verify" units "$package"
            ;;
        *)
            echo "$package is no package" >&2
            exit 1
            ;;
    esac
done

result=ok
[ "$failed" = 0 ] || result=FAILED
echo
echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ "$failed" = 0 ]
