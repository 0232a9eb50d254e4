"""Programs in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dvcrypto

# A sanitizer allocates by itself, and has terabytes of shadow memory: `make asan`, `make tsan`.
SANITIZED = re.search("lib[at]san", os.environ.get("LD_PRELOAD", "")) is not None

searches_memory = pytest.mark.skipif(
    SANITIZED or not Path("/proc/self/mem").exists(), reason="needs /proc/self/mem, and no sanitizer's memory in it"
)


def environment(**variables: str) -> dict[str, str]:
    """The variables of a program that has the same package, and no engine or mode forced but by these."""
    inherited = {k: v for k, v in os.environ.items() if k not in {"DVCRYPTO_ENGINE", "DVCRYPTO_MODE"}}
    root = str(Path(dvcrypto.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, inherited.get("PYTHONPATH"))))
    return {**inherited, "PYTHONPATH": path, **variables}


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with the same package."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
