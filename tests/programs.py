"""Programs in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import dvcrypto


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with the same package."""
    inherited = {k: v for k, v in os.environ.items() if k not in {"DVCRYPTO_ENGINE", "DVCRYPTO_MODE"}}
    root = str(Path(dvcrypto.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, inherited.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
