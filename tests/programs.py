"""Programs in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import dvcrypto


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
