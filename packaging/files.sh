#!/bin/sh
# Prints the name of each file of the sources, ended by a NUL: what git knows or would add, as it is now.
set -eu

cd "$(dirname "$0")/.."
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path ./target -prune -o -type f -printf '%P\0'
fi | xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh
