#!/bin/sh
# Build this machine's wheel into dist/ and check it: scripts/make_wheel.sh
# With a machine, x86_64 or aarch64, zig compiles for it, and for every Linux with glibc 2.28: scripts/make_wheel.sh aarch64
# Tools come from the environment that PATH leads to first, the tarballs of the libraries from DVCRYPTO_TARBALLS, where named.
set -eu

cd "$(dirname "$0")/.."
machine=${1:-$(python -c 'import platform; print(platform.machine())')}
prefix=$PWD/build/deps
made=build/wheel
if [ $# -gt 0 ]; then
    prefix=$prefix-$machine
    made=$made-$machine
    export CC="python-zig cc -target $machine-linux-gnu.2.28" AR="python-zig ar" RANLIB="python-zig ranlib"
fi

python scripts/build_deps.py "$prefix" --machine "$machine"
rm -rf "$made" build/lib.* build/temp.* build/bdist.* # setuptools takes up what it finds there, whatever made it
DVCRYPTO_STATIC_PREFIX=$prefix python -m build --wheel --outdir "$made" "-C--build-option=--plat-name=linux_$machine" >"$made.log" 2>&1 || {
    cat "$made.log"
    exit 1
}
mkdir -p dist
rm -f dist/*"_$machine.whl"
auditwheel repair --wheel-dir dist "$made"/*.whl
twine check --strict dist/*"_$machine.whl"
python scripts/check_wheel.py dist/*"_$machine.whl"
