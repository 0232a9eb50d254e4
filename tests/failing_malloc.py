"""Programs whose nth allocation fails: failing_malloc.c in front of the C library."""

import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import SANITIZED, python

SOURCE = Path(__file__).with_suffix(".c")

# What a program begins with: fails(nth, call) is whether the call's nth allocation failed, its result, and its error.
PRELUDE = """
import ctypes, gc
_shim = ctypes.CDLL(None)
_fail, _failed = _shim.fail_allocation, _shim.allocation_failed

def fails(nth, call):
    result = error = None
    try:
        _fail(nth)
        result = call()
    except BaseException as caught:
        error = caught
    finally:
        failed = bool(_failed())
    return failed, result, error

def at_each(call):
    nth = 0
    while True:
        nth += 1
        assert nth < 5000
        failed, result, error = fails(nth, call)
        yield failed, result, error
        if not failed:
            assert error is None, error
            break
"""


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What LD_PRELOAD takes; a visible skip where there is no glibc or no compiler."""
    compiler = os.environ.get("CC", "cc")
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        pytest.skip("allocations are made to fail in glibc only")
    if SANITIZED:
        pytest.skip("a sanitizer allocates by itself")
    if not shutil.which(compiler):
        pytest.skip(f"no C compiler {compiler}")
    built = tmp_path_factory.mktemp("failing_malloc") / "failing_malloc.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(SOURCE), "-o", str(built)], check=True)
    return str(built)


@pytest.fixture(scope="session")
def preload_all(preload: str) -> str:
    """The same, for programs in which what Python itself allocates fails too: PYTHONMALLOC=malloc."""
    code = f"{PRELUDE}\nfor _ in at_each(lambda: lambda: None): pass"
    run = python(code, LD_PRELOAD=preload, PYTHONMALLOC="malloc")
    if run.returncode == -signal.SIGSEGV:
        pytest.skip("this Python crashes where a new function finds no memory, as CPython 3.12.1 does")
    assert run.returncode == 0, run.stderr
    return preload
