#!/bin/sh
# Install what the build needs from the system, and only what is missing: a C compiler, pkg-config, the headers of libsodium,
# OpenSSL and Python, and Python's venv. With the argument "fuzz" also clang with libFuzzer and its sanitizers, with "wheel" Perl,
# which configures the OpenSSL that a wheel carries, with "dropin" the libopus without which interactions.py plays nothing; any
# other argument is a tool whose package has its name. Where there is no apt-get, say what is missing and how to install it.
set -eu

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "dvcrypto needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
    echo "Name another one with PYTHON=..." >&2
    exit 1
fi

missing=""
need() { # PACKAGE COMMAND...: PACKAGE is missing where COMMAND fails
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

python_header() {
    "$python" -c 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())'
}

c_headers() {
    printf '#include <stdio.h>\n' | cc -E -
}

links_fuzzer() {
    scratch=$(mktemp -d)
    echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long len) { return data == 0 && len; }' >"$scratch/target.c"
    "${FUZZ_CC:-clang}" -fsanitize=fuzzer,address,undefined "$scratch/target.c" -o "$scratch/target" && linked=0 || linked=1
    rm -r "$scratch"
    return $linked
}

need gcc command -v cc
need libc6-dev c_headers
need pkg-config command -v pkg-config
if [ -z "${DVCRYPTO_STATIC_PREFIX:-}" ]; then
    need libsodium-dev pkg-config --exists "libsodium >= 1.0.18"
    need libssl-dev pkg-config --exists "libcrypto >= 3.0.0"
fi
need python3-dev python_header
need python3-venv "$python" -c 'import ensurepip, venv'
for wanted in "$@"; do
    case $wanted in
    fuzz)
        need clang command -v "${FUZZ_CC:-clang}"
        need libclang-rt-dev links_fuzzer
        ;;
    dropin)
        need libopus0 "$python" -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library("opus") is None)'
        ;;
    wheel)
        need perl perl -MFindBin -MFile::Copy -e 1
        ;;
    *)
        need "$wanted" command -v "$wanted"
        ;;
    esac
done

[ -n "$missing" ] || exit 0
echo "Missing from the system:$missing"
if ! command -v apt-get >/dev/null; then
    cat >&2 <<'TXT'
This script can install them where there is apt-get. Elsewhere:
  Fedora, RHEL:  sudo dnf install gcc pkgconf-pkg-config libsodium-devel openssl-devel python3-devel perl-core
  Alpine:        sudo apk add gcc musl-dev pkgconf libsodium-dev openssl-dev python3-dev perl linux-headers
  macOS:         brew install pkgconf libsodium openssl@3
For fuzzing (clang, libclang-rt-dev), besides:
  Fedora, RHEL:  sudo dnf install clang compiler-rt
  Alpine:        sudo apk add clang compiler-rt
  macOS:         brew install llvm, and FUZZ_CC="$(brew --prefix llvm)/bin/clang" as Apple's clang has no libFuzzer
For the tests of the libraries that dvcrypto drops in (libopus0), besides, on all three: the package opus
TXT
    exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || {
        echo "Run as root: apt-get install$missing" >&2
        exit 1
    }
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
