#!/usr/bin/env bash
# The tests under a sanitizer, in a copy of the project that is built with it: `asan` is AddressSanitizer and
# UndefinedBehaviorSanitizer with all tests, `tsan` ThreadSanitizer with the C tests and Python's tests of threads.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=$root/.venv/bin/python
export DVCRYPTO_VECTORS=${DVCRYPTO_VECTORS:-$root/../shared/vectors} # the copy lies elsewhere
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$root/tests/tsan.supp die_after_fork=0" # children of threads are part of the tests

case ${1:-} in
asan) flags="-fsanitize=address,undefined -fno-sanitize-recover=all" library=libasan.so selected="not unsanitized" ;;
tsan) flags="-fsanitize=thread" library=libtsan.so selected=threads ;;
*)
    echo "usage: $0 asan|tsan" >&2
    exit 2
    ;;
esac

rm -rf "build/$1"
mkdir -p "build/$1/project"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "build/$1/project"
cd "build/$1/project"
export CFLAGS="-O1 -g -fno-omit-frame-pointer $flags" LDFLAGS=$flags PYTHONPATH=$PWD

make --silent CFLAGS="$CFLAGS" test-c
$python setup.py --quiet build_ext --inplace
# CPython frees little at its end, and reports leaks of its own.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 PYTHONMALLOC=malloc \
    LD_PRELOAD="$(gcc -print-file-name=$library) $(gcc -print-file-name=libstdc++.so)" \
    "$python" -m pytest -n auto --dist worksteal -m "$selected" ${PYTEST_ARGS:-}
