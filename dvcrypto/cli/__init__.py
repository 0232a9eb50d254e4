"""The ``dvcrypto`` command: one file for each of its commands."""

import argparse
import importlib.util
import sys
from collections.abc import Sequence

import dvcrypto

_NEEDED = ("cryptography", "dpkt", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, 1 when a packet failed, 2 when the command could not run."""
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        _complain(f"the command line needs {', '.join(absent)}; install them with: pip install 'dvcrypto[cli]'")
        return 2
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (OSError, ValueError, dvcrypto.DvcryptoError) as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130


def _complain(sentence: str) -> None:
    sys.stderr.write(f"dvcrypto: {sentence}\n")


def _parser() -> argparse.ArgumentParser:
    from dvcrypto.cli import demo, info, open, seal  # noqa: A004

    parser = argparse.ArgumentParser(
        prog="dvcrypto", description="Seal and open bursts of Discord voice and video packets."
    )
    parser.add_argument("--version", action="version", version=f"dvcrypto {dvcrypto.versions()['dvcrypto']}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (demo, info, seal, open):
        command.add_to(commands)
    return parser
