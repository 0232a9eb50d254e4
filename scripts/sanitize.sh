#!/usr/bin/env bash
# The tests under a sanitizer, in a copy of the project that is built with it. `asan` is AddressSanitizer, which looks for leaks
# in the C tests, and UndefinedBehaviorSanitizer, with all tests; `tsan` is ThreadSanitizer, with the C tests and with those of
# Python's tests that have threads. Whatever is reported ends its process, and fails here even where a test expects that end.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=$root/.venv/bin/python
export DVCRYPTO_VECTORS=${DVCRYPTO_VECTORS:-$root/../shared/vectors} # the copy lies elsewhere

case ${1:-} in
asan)
    flags="-fsanitize=address,undefined -fno-sanitize-recover=all"
    library=libasan.so
    tests=(tests)
    ;;
tsan)
    flags="-fsanitize=thread"
    library=libtsan.so
    tests=(tests/test_{sealer,opener,rtp,wire,faults,model,dropin_standins}.py)
    ;;
*)
    echo "usage: $0 asan|tsan" >&2
    exit 2
    ;;
esac

rm -rf "build/$1"
mkdir -p "build/$1/project"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "build/$1/project"
cd "build/$1/project"
reports=$(dirname "$PWD")/report
export CFLAGS="-O1 -g -fno-omit-frame-pointer $flags" LDFLAGS=$flags PYTHONPATH=$PWD
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 # that a thread's child goes on is among what is tested

make --silent CFLAGS="$CFLAGS" test-c
"$python" setup.py --quiet build_ext --inplace

# At its end CPython leaves much unfreed. A test's own output is kept from view, and so would reports be.
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:log_path=$reports UBSAN_OPTIONS=$UBSAN_OPTIONS:log_path=$reports
export TSAN_OPTIONS=$TSAN_OPTIONS:log_path=$reports PYTHONMALLOC=malloc
LD_PRELOAD="$(gcc -print-file-name=$library) $(gcc -print-file-name=libstdc++.so)" \
    "$python" -m pytest -n auto --dist worksteal ${PYTEST_ARGS:-} "${tests[@]}" || failed=1
! cat "$reports".* 2>/dev/null || failed=1
exit "${failed:-0}"
