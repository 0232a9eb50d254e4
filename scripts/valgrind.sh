#!/usr/bin/env bash
# The C tests and Python's tests of the C layer under valgrind, which sees what libcrypto and libsodium read and write as well.
set -euo pipefail
cd "$(dirname "$0")/.."
check=(valgrind --quiet --error-exitcode=9 --undef-value-errors=no)

"${check[@]}" build/test_csrc
PYTHONMALLOC=malloc "${check[@]}" .venv/bin/python -m pytest -p no:cacheprovider ${PYTEST_ARGS:-} \
    tests/test_engines_agree.py tests/test_rtp.py
