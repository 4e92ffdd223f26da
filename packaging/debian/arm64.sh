#!/bin/sh
# Cross-compiles the package for arm64, and starts the program that it contains under qemu. PROFILE as for deb.sh.
set -eu

cd "$(dirname "$0")/../.."
packaging/install-missing.sh gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc qemu-user-static:qemu-aarch64-static \
    libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
rustup target add aarch64-unknown-linux-gnu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The C library of arm64, for the package's dependencies and for qemu. This machine keeps its own architectures.
mkdir -p "$work/lists/partial" "$work/libraries"
apt() {
    apt-get -q -o "Dir::State::lists=$work/lists" -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
        -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$work" && apt download libc6:arm64 libgcc-s1:arm64)
for library in libc6 libgcc-s1; do
    dpkg-deb -R "$work/$library"_*_arm64.deb "$work/libraries/$library"
done
deb=$(ARCH=arm64 LIBRARIES="$work/libraries/libc6 $work/libraries/libgcc-s1" packaging/deb.sh)

mkdir "$work/root"
for package in "$deb" "$work"/*_arm64.deb; do
    dpkg-deb -x "$package" "$work/root"
done
qemu-aarch64-static -L "$work/root" "$work/root/usr/bin/etcd-agent" --version
echo "$deb"
