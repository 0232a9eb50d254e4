"""Instructions, counted by callgrind: they do not depend on what else the machine does.

Each path runs in a process of its own, a few hundred times and then some hundred times more; the difference counts.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dvcrypto

_SCRIPT = """
import sys
import dvcrypto
path, mode, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
header, payload = bytes.fromhex("8078000100000000000a0d10"), bytes(200)
sealer, opener = dvcrypto.Sealer(mode, bytes(32)), dvcrypto.Opener(mode, bytes(32))
sealed = sealer.seal(header, payload)
plain_burst, sealed_burst = [header + payload] * 64, [sealed] * 64
stream, frame = dvcrypto.RtpStream(sealer, 1, 101, max_packet=len(sealed)), payload * 64
work = {
    "nothing": lambda: None,
    "seal": lambda: sealer.seal(header, payload),
    "open": lambda: opener.open(sealed),
    "seal_burst of 64": lambda: sealer.seal_burst(plain_burst),
    "open_burst of 64": lambda: opener.open_burst(sealed_burst).statuses,
    "seal_frame of 64": lambda: stream.seal_frame(frame),
}[path]
for _ in range(times):
    work()
"""
_PATHS = {"seal": 1, "open": 1, "seal_burst of 64": 64, "open_burst of 64": 64, "seal_frame of 64": 64}


def measure(*, full: bool) -> list[dict[str, Any]]:
    """A row for each mode and path; nothing where there is no valgrind."""
    if not shutil.which("valgrind"):
        return []
    times = 400 if full else 100
    return [row for mode in dvcrypto.Mode for row in _rows(mode, times)]


def _rows(mode: dvcrypto.Mode, times: int) -> Iterator[dict[str, Any]]:
    nothing = _difference("nothing", mode, times)
    for path, count in _PATHS.items():
        instructions = _difference(path, mode, times) - nothing
        yield {"mode": mode.value, "path": path, "instructions a call": instructions, "a packet": instructions // count}


def _difference(path: str, mode: dvcrypto.Mode, times: int) -> int:
    return (_count(path, mode, 2 * times) - _count(path, mode, times)) // times


def _count(path: str, mode: dvcrypto.Mode, times: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    told = subprocess.run(
        [*command, sys.executable, "-c", _SCRIPT, path, mode.value, str(times)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    ).stderr
    (collected,) = re.findall(r"Collected : (\d+)", told)
    return int(collected)


def tables(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One table."""
    if rows:
        yield "Instructions, 200 bytes of payload", rows
