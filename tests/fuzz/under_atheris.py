"""Give a Python target to atheris: ``python tests/fuzz/under_atheris.py TARGET``, then libFuzzer's options."""

import importlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent / "targets"))


def main() -> None:
    """Atheris reads the options, and does not return."""
    with atheris.instrument_imports(include=["dvcrypto"]):
        target = importlib.import_module(sys.argv.pop(1))
    atheris.Setup(sys.argv, target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
