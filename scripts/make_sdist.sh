#!/bin/sh
# Build the sdist into dist/, unpack it in a clean folder, and run its own tests against it, built and installed from there:
#   scripts/make_sdist.sh [ARGUMENTS of pytest]
set -eu

cd "$(dirname "$0")/.."
rm -f dist/*.tar.gz
python -m build --sdist >build/sdist.log 2>&1 || {
    cat build/sdist.log
    exit 1
}
twine check --strict dist/*.tar.gz
sdist=$(echo "$PWD"/dist/*.tar.gz)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar xzf "$sdist" -C "$folder"
export DVCRYPTO_VECTORS="${DVCRYPTO_VECTORS:-$PWD/../shared/vectors}"
"$folder"/dvcrypto-*/scripts/test_installed.sh "${PYTHON:-python3}" "$sdist" "$@"
