#!/usr/bin/env bash
# Line coverage of the C layer and of the Python layer by all tests, in a copy of the project: build/coverage has the reports.
# With the argument `dropin` the libraries that dvcrypto drops in are run as well, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=$root/.venv/bin/python
export DVCRYPTO_VECTORS=${DVCRYPTO_VECTORS:-$root/../shared/vectors} # the copy lies elsewhere

rm -rf build/coverage
mkdir -p build/coverage/project
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t build/coverage/project
cd build/coverage/project
export PYTHONPATH=$PWD COVERAGE_FILE=$PWD/.coverage

make --silent VENV="$root/.venv" CFLAGS="-O0 -g --coverage -fprofile-update=atomic" test-c
CFLAGS="-O0 -g --coverage -fprofile-update=atomic" LDFLAGS=--coverage $python setup.py --quiet build_ext --inplace
$python -m coverage run -m pytest --quiet -n auto --dist worksteal --ignore tests/test_faults.py --ignore tests/test_secrets.py
# Some of these programs, which run out of memory or end in strange ways, do not bear to be watched, and fail.
$python -m coverage run -m pytest --quiet -n auto tests/test_faults.py tests/test_secrets.py || true
[ "${1:-}" != dropin ] || $python -m nox -- --coverage

$python -m gcovr --root . --filter csrc/ --exclude csrc/tests --print-summary \
    --txt ../c.txt --html-details ../c.html --fail-under-line 97 | grep lines || c_failed=1
$python -m coverage combine --quiet
$python -m coverage html --quiet --directory ../python
$python -m coverage report --skip-covered --show-missing | tee ../python.txt
exit "${c_failed:-0}"
