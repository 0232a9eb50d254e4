#!/usr/bin/env bash
# The C tests and the demo from Python under valgrind, which sees what libcrypto and libsodium read and write as well. What
# Python compares and branches on is not looked at: some of that is undefined by design.
set -euo pipefail
cd "$(dirname "$0")/.."
check=(valgrind --quiet --error-exitcode=9 --suppressions=csrc/tests/valgrind.supp)

"${check[@]}" build/test_csrc
PYTHONMALLOC=malloc "${check[@]}" --undef-value-errors=no .venv/bin/python -m dvcrypto demo
