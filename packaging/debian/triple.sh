#!/bin/sh
# Prints rustc's name of a Debian architecture.
set -eu

case $1 in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo aarch64-unknown-linux-gnu ;;
    *)
        echo "the architecture is $1: packages are built for amd64 and arm64" >&2
        exit 1
        ;;
esac
