#!/usr/bin/env bash
# The C tests and Python's tests of the C layer under valgrind, which sees what libcrypto and libsodium read and write as well.
# Python reads undefined values by design, so those are looked for in the C tests alone.
set -euo pipefail
cd "$(dirname "$0")/.."
check=(valgrind --quiet --error-exitcode=9)

"${check[@]}" --suppressions=csrc/tests/valgrind.supp build/test_csrc
PYTHONMALLOC=malloc "${check[@]}" --undef-value-errors=no .venv/bin/python -m pytest -p no:cacheprovider ${PYTEST_ARGS:-} \
    tests/test_opener.py tests/test_engines_agree.py
