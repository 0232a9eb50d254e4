#!/bin/sh
# Install a wheel or an sdist into a new environment and run the tests against it, away from the sources:
#   scripts/test_installed.sh PYTHON FILE [ARGUMENTS of pytest]
# Which tests run depends on what the group "installed" of pyproject.toml brings; the others are skipped, and say so.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
python=$1
distribution=$2
shift 2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
"$folder/venv/bin/python" -m pip install --quiet "$distribution" --group "$root/pyproject.toml:installed"

cp -r "$root/tests" "$root/pyproject.toml" "$folder"
export DVCRYPTO_VECTORS="${DVCRYPTO_VECTORS:-$root/../shared/vectors}"
cd "$folder"
venv/bin/python -c 'import dvcrypto, sys; print(f"Python {sys.version}", dvcrypto.__file__, dvcrypto.versions(), sep="\n")'
venv/bin/python -m pytest "$@"
