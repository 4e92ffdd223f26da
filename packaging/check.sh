#!/bin/bash
# Checks what packages are made of: the manual pages, the source package, the spec of the RPM and the licenses of others.
# With packages as arguments it checks those: lintian, systemd-analyze, rpmlint. `make test` runs both. The last line is
# that of a test program, so that tests/run.sh can add it up.
#   LAB_PROGRAM=FILE   `lab`: with it the lintian of Debian 13 checks the packages too
set -euo pipefail

cd "$(dirname "$0")/.."
for program in lintian man groff rpmbuild rpmlint systemd-analyze zsh fish python3; do
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

run_lintian() { lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$1"; }

run_rpmlint() { rpmlint -c packaging/rpm/rpmlint.toml "$1" | tee "$work/rpmlint" && grep -q ' 0 errors, 0 warnings' "$work/rpmlint"; }

# Each shell completes `etcd-agent backup li`. zsh completes only on a terminal, so it is asked what its system of
# completions has loaded.
bash_completion() {
    bash -c '. "$1" && complete -p etcd-agent && COMP_WORDS=(etcd-agent backup li) COMP_CWORD=2 &&
        _etcd__agent etcd-agent li backup && echo "${COMPREPLY[@]}" && [ "${COMPREPLY[*]}" = list ]' bash "$1"
}
fish_completion() { fish --no-config -c 'source $argv[1]; complete -C "etcd-agent backup li" | grep "^list"' "$1"; }
zsh_completion() {
    zsh -f -c 'fpath=($1:h $fpath); autoload -U compinit && compinit -D -u && autoload +X _etcd-agent &&
        print -r -- $_comps[etcd-agent] && [[ $_comps[etcd-agent] = _etcd-agent ]]' zsh "$PWD/$1"
}

# What it needs of the C library is in EL 9, which has glibc 2.34.
old_enough() {
    local needed
    needed=$(rpm -qp --requires --nosignature "$1" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -V | tail -1)
    echo "the program needs glibc $needed"
    [ "$(printf '%s\n2.34\n' "$needed" | sort -V | tail -1)" = 2.34 ]
}

source_package() { dsc=$(packaging/debian/source.sh) && run_lintian "$dsc"; }

# The lintian of Debian 13 needs that Debian's dpkg and Perl, so it runs in the lab's tree.
newer_lintian() { "$LAB_PROGRAM" lintian trixie "$1"; }

# firewalld itself needs a running D-Bus; what it reads is this.
firewalld_service() {
    python3 - "$1" <<'PY'
import sys, xml.etree.ElementTree as tree
service = tree.parse(sys.argv[1]).getroot()
assert service.tag == "service", service.tag
ports = [(port.get("protocol"), port.get("port")) for port in service.findall("port")]
assert [child.tag for child in service] == ["short", "description"] + ["port"] * len(ports), list(service)
assert ports and all(protocol == "tcp" and 0 < int(port) < 65536 for protocol, port in ports), ports
PY
}

# Debian 13's lintian refuses files below links such as /lib, and Debian 12's does not know that.
real_places() { ! dpkg-deb -c "$1" | grep -E ' \./(bin|sbin|lib[^/]*)/'; }

# The units as systemd reads them in the package, and each page that they name. Of other packages they need targets.
units() {
    local root here=/usr/lib/systemd/system
    root=$(mktemp -d -p "$work") && dpkg-deb -x "$1" "$root" &&
        cp -a "$here"/*.target "$here"/*.slice "$here"/dbus.* "$here"/systemd-journald* "$root$here" &&
        # shellcheck disable=SC2046  # several units
        MANPATH=$root/usr/share/man systemd-analyze verify --root="$root" $(cd "$root$here" && ls etcd-agent*.service)
}

if [ $# = 0 ]; then
    packaging/reasons.sh docs/reasons.md >"$work/etcd-agent-reasons.7"
    for file in docs/man/*.8 docs/man/etcd-agent.toml.5 "$work/etcd-agent-reasons.7"; do
        check "man --warnings: $(basename "$file")" page "$file"
    done
    check "completion: bash" bash_completion packaging/completions/etcd-agent.bash
    check "completion: fish" fish_completion packaging/completions/etcd-agent.fish
    check "completion: zsh" zsh_completion packaging/completions/_etcd-agent
    check "the licenses of the crates are listed" packaging/licenses/check.sh
    check "lintian: the source package" source_package
    [ -z "${LAB_PROGRAM:-}" ] || check "lintian of Debian 13: the source package" newer_lintian "${dsc:-no source package}"
    check "autopkgtest: debian/tests/control" perl packaging/debian/tests.pl
    check "firewalld: the service" firewalld_service packaging/firewalld/etcd-agent.xml
    check "rpmlint: the spec" run_rpmlint packaging/rpm/etcd-agent.spec
fi
for package in "$@"; do
    case $package in
        *.deb)
            check "lintian: $(basename "$package")" run_lintian "$package"
            [ -z "${LAB_PROGRAM:-}" ] || check "lintian of Debian 13: $(basename "$package")" newer_lintian "$package"
            check "no file is below a link to /usr" real_places "$package"
            check "systemd-analyze verify" units "$package"
            ;;
        *.rpm)
            check "rpmlint: $(basename "$package")" run_rpmlint "$package"
            check "EL 9 has the C library" old_enough "$package"
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
