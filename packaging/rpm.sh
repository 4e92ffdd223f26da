#!/bin/sh
# Builds target/rpm/etcd-agent-<version>-<release>.<arch>.rpm from this tree.
#   PROFILE=dev      package a debug build
#   BINARY=FILE      package this program, and build nothing
#   SOURCES=1        have rpmbuild build all of it, and the source package: as a distribution does
#   MACROS=FILE      systemd's macros, on a distribution that has none
#   RELEASE=2        the release of the package (to try an upgrade)
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
spec=packaging/rpm/etcd-agent.spec
version=$(sed -n 's/^Version: *//p' $spec)
release=${RELEASE:-1}
out=$target/rpm
rm -rf "$out/build"
mkdir -p "$out/build"
sed "s/^Release: .*/Release:        $release%{?dist}/" $spec >"$out/etcd-agent.spec"

set -- "$out/etcd-agent.spec"
if [ -n "${SOURCES:-}" ]; then
    set -- -ba "$@"
    packaging/files.sh >"$out/files"
else
    [ -n "${BINARY:-}" ] || [ "${PROFILE:-}" = dev ] || PATH=$PATH:$(packaging/cargo-tool.sh cargo-auditable)
    program=$(realpath "${BINARY:-$(packaging/build.sh)}")
    set -- -bb "$@" --define "program $program"
    printf '%s\0' README.md CHANGELOG.md LICENSE docs units packaging >"$out/files"
fi
# Debian has neither systemd's macros nor packages of the names in BuildRequires.
[ "$(rpm --eval '%{?_unitdir}')" ] || set -- "$@" --nodeps \
    --load="${MACROS:-$PWD/packaging/rpm/macros.systemd}"

# Two builds of one state are equal: the time is that of the changelog.
SOURCE_DATE_EPOCH=$(date -u -d "$(sed -n 's/^\* \(.* [0-9]\{4\}\) .*/\1/p' $spec | head -1)" +%s)
export SOURCE_DATE_EPOCH
tar -cz --null -T "$out/files" --transform "s,^,etcd-agent-$version/," -f "$out/etcd-agent-$version.tar.gz"
rpmbuild "$@" --define "_topdir $out/build" --define "_sourcedir $out" --define "_rpmdir $out" --define "_srcrpmdir $out" \
    --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" --define "_buildhost localhost" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    >"$out/build.log" 2>&1 || {
    tail -30 "$out/build.log" >&2
    exit 1
}
rm -rf "$out/build" "$out/files" "$out/etcd-agent.spec"
ls "$out/etcd-agent-$version-$release"*."$(rpm --eval '%{_target_cpu}')".rpm
