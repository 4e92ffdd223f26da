#!/bin/bash
# `make test`. The last line is the sum of all test results: "N passed, N failed". TIMES=1 also lists the slowest
# twenty tests.
#
# One profile and one set of features for everything: `cargo test --workspace` builds the dependencies once, and
# the package that the lab installs holds the binary of that very build. Building package by package would resolve
# other features and compile tokio, tonic and rustls two or three times over.
set -euo pipefail

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
log=$target/test.log
mkdir -p "$target"

step() { printf '\n==> %s (%s s)\n' "$1" "$SECONDS"; }

# libtest reports times only where unstable options are allowed. The variable is set for the test programs alone:
# cargo would build the dependencies again with it.
times=()
if [ -n "${TIMES:-}" ]; then
    triple=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
    export "CARGO_TARGET_${triple}_RUNNER=env RUSTC_BOOTSTRAP=1"
    # rustdoc has no runner, so the examples in the documentation are left out.
    times=(--tests -- -Z unstable-options --report-time)
fi

slowest() {
    printf '\n==> the slowest twenty tests\n'
    sed -n 's/^test \(.*\) \.\.\. ok <\([0-9.]*\)s>$/\2 \1/p' "$log" | sort -rn | head -20 | awk '{ printf "%7.0f s  %s\n", $1, $2 }'
}

# What each failed test said, without its stack: the log of the whole run is long.
failures() {
    printf '\n==> what the failed tests said\n'
    awk '
        /^---- .* stdout ----$/ { print; lines = 30; next }
        /^(stack backtrace|Stack backtrace):?$/ || /^failures:$/ || /^test result: / { lines = 0 }
        lines > 0 && NF { print; lines-- }' "$log"
}

# Without the simulator and the genesis protocol, which only compute: they are compiled by another profile, and tokio
# with a clock that can stand still is not for the binary that the lab installs.
hosts=(--workspace --exclude etcd-agent-sim --exclude etcd-agent-genesis-check)

# Every crate of the workspace is checked with clippy when it is compiled.
export RUSTC_WORKSPACE_WRAPPER=$PWD/tests/rustc-and-clippy.sh

everything() {
    step "format"
    cargo fmt --all --check

    step "build, and clippy"
    # Packages, Debian trees, etcd and the S3 servers are often waited for, so they are made while the agent compiles.
    cargo build "${hosts[@]}" --locked --bin lab
    {
        make --no-print-directory promtool management-tools package-tools && "$target/debug/lab" prepare
    } >"$target/prepared.log" 2>&1 &
    preparing=$!
    trap 'wait "$preparing"' EXIT
    cargo test "${hosts[@]}" --locked --no-run

    step "what the checks and the lab need: packages, Debian trees, etcd, S3 servers"
    prepared=0
    wait "$preparing" || prepared=$?
    cat "$target/prepared.log"
    [ "$prepared" = 0 ]

    step "the packages"
    deb=$(BINARY=$target/debug/etcd-agent packaging/deb.sh)
    echo "$deb"
    rpm=$(BINARY=$target/debug/etcd-agent packaging/rpm.sh)
    echo "$rpm"

    # What only computes runs with what the cores have left: the tests of the lab mostly wait. First the checks that
    # compile nothing, then the genesis protocol, the simulator and planners that are broken on purpose. These have a
    # profile, and so a directory, of their own: the binary that the package was made of stays as it is.
    setsid bash -c 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 bash -c "$@"' idle '
        packages=("$1" "$2")
        export LAB_PROGRAM=$3
        shift 3
        failed=0
        packaging/prometheus/check.sh || failed=$?
        packaging/configuration-management/check.sh || failed=$?
        packaging/check.sh || failed=$?
        packaging/check.sh "${packages[@]}" || failed=$?
        cargo test --package etcd-agent-genesis-check --package etcd-agent-sim --features etcd-agent-sim/mutants \
            --profile sim --locked --no-fail-fast "$@" || failed=$?
        exit "$failed"
        ' idle "$deb" "$rpm" "$target/debug/lab" "${times[@]:---}" >"$target/computed.log" 2>&1 &
    computing=$!
    trap 'kill -- -"$computing" 2>/dev/null || true' EXIT

    step "tests"
    # Four at a time: each test of the lab boots several hosts, and mostly waits.
    failed=0
    ETCD_AGENT_DEB=$deb cargo test "${hosts[@]}" --locked --no-fail-fast "${times[@]:---}" --test-threads=4 || failed=$?

    step "what compiles nothing, the genesis protocol and the simulator"
    wait "$computing" || failed=$?
    cat "$target/computed.log"
    return "$failed"
}

set +e
(
    set -e
    everything
) 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

if [ -n "${TIMES:-}" ]; then slowest | tee -a "$log"; fi

if [ "$status" != 0 ]; then
    # Read to its end before it is appended to.
    said=$(failures | cut -c1-1000)
    printf '%s\n' "$said" | tee -a "$log"
fi

# What broke before any test could run is a failure too.
awk -v status="$status" '
    /^test result: / { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1) } }
    END { if (status != 0 && f == 0) f = 1; printf "%d passed, %d failed\n", p, f }' "$log" | tee -a "$log"
exit "$status"
