"""The ``dvcrypto`` command: one file for each of its commands."""

import argparse
import importlib.util
import signal
import sys
import threading
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
    _end_in_order()
    try:
        return int(options.run(options))
    except (OSError, ValueError, dvcrypto.DvcryptoError) as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130


def _end_in_order() -> None:
    """Let a command that is told to end remove what it has not finished."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))


def _complain(sentence: str) -> None:
    sys.stderr.write(f"dvcrypto: {sentence}\n")


def _parser() -> argparse.ArgumentParser:
    from dvcrypto.cli import bench, demo, info, inspect, open, seal  # noqa: A004

    parser = argparse.ArgumentParser(
        prog="dvcrypto", description="Seal and open bursts of Discord voice and video packets."
    )
    parser.add_argument("--version", action="version", version=f"dvcrypto {dvcrypto.versions()['dvcrypto']}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (demo, info, seal, open, inspect, bench):
        command.add_to(commands)
    return parser
