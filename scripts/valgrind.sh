#!/usr/bin/env bash
# Under valgrind, which sees what libcrypto and libsodium read and write as well: the C tests, and from Python the demo, the
# vectors, and the tests of sealing and opening. What Python compares and branches on is not looked at: some of that is
# undefined by design.
set -euo pipefail
cd "$(dirname "$0")/.."
check=(valgrind --quiet --error-exitcode=9 --suppressions=csrc/tests/valgrind.supp)

"${check[@]}" build/test_csrc

export PYTHONMALLOC=malloc
check+=(--undef-value-errors=no .venv/bin/python)
"${check[@]}" -m dvcrypto demo
"${check[@]}" -m pytest -p no:cacheprovider ${PYTEST_ARGS:-} tests/test_{vectors,engines_agree,sealer,opener}.py
