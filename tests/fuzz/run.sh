#!/bin/bash
# Feeds each parser of data from a store with RUNS inputs: run.sh RUNS [TARGET...]. Inputs that make a parser
# fail stay in target/fuzz/artifacts/.
set -euo pipefail

runs=${1:?how many inputs for each target}
shift
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target/fuzz

missing() { echo "$1 is missing: $2" >&2; exit 1; }
cargo +nightly --version >/dev/null 2>&1 || missing "a nightly Rust" "rustup toolchain install nightly --profile minimal"
cargo fuzz --version >/dev/null 2>&1 || missing cargo-fuzz "cargo install cargo-fuzz --locked"
command -v zstd >/dev/null || missing zstd "apt-get install zstd"

# Overflows and debug assertions count as failures. The code is safe Rust, so it needs no sanitizer.
fuzz=(--fuzz-dir tests/fuzz --sanitizer none --release --debug-assertions)
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list --fuzz-dir tests/fuzz)
cargo +nightly fuzz build "${fuzz[@]}"
built=$CARGO_TARGET_DIR/$(rustc +nightly -vV | sed -n 's/^host: //p')/release
for name in "${targets[@]}"; do
    corpus=$CARGO_TARGET_DIR/corpus/$name
    artifacts=$CARGO_TARGET_DIR/artifacts/$name
    mkdir -p "$corpus" "$artifacts"
    cp tests/fuzz/seeds/"$name"/* "$corpus"/
    # The parser reads an uncompressed database. Only its seed in the repository is compressed.
    [ "$name" != database ] || zstd -q -d -f --rm "$corpus"/*.zst
    log=$CARGO_TARGET_DIR/$name.log
    if ! "$built/$name" "$corpus" \
        -runs="$runs" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$artifacts/" -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "$name: failed, see $artifacts and $log" >&2
        exit 1
    fi
    awk -v name="$name" '/stat::number_of_executed_units/ { n = $2 } / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1) }
        END { printf "%s: %s inputs, %s edges reached, no failure\n", name, n, c }' "$log"
done
