"""Growth: the time of a packet from short bursts to long ones, and the memory of a burst and of a sealer."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dvcrypto
from benchmarks import peers
from benchmarks.timing import interleave, repeated

_HEADER = bytes.fromhex("8078000100000000000a0d10")
_COUNTS = (8, 16, 64, 256, 1024, 4096)

# In a process of its own: the peak is reset, and what others left in memory does not hide what is measured.
_MEMORY = """
import re, sys
import dvcrypto

def kilobytes(what):
    return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

mode, count = sys.argv[1], int(sys.argv[2])
sealer = dvcrypto.Sealer(mode, bytes(32))
packets = [bytes.fromhex("8078000100000000000a0d10") + bytes(1200)] * count
sealer.seal_burst(packets[:2])
open("/proc/self/clear_refs", "w").write("5")
before = kilobytes("VmRSS")
burst = sealer.seal_burst(packets)
print((kilobytes("VmHWM") - before) * 1024 / burst.buffer.nbytes)
del burst
before = kilobytes("VmRSS")
sealers = [dvcrypto.Sealer(mode, bytes(32)) for _ in range(20000)]
print((kilobytes("VmRSS") - before) * 1024 / len(sealers))
"""


def measure(*, full: bool) -> dict[str, Any]:
    """Ns a packet by burst length, and memory."""
    return {mode.value: _measure(mode, rounds=31 if full else 11) for mode in dvcrypto.Mode}


def _measure(mode: dvcrypto.Mode, rounds: int) -> dict[str, Any]:
    sealer = dvcrypto.Sealer(mode, peers.KEY)
    figures = {}
    for size in (200, 1200):
        bursts = {count: [_HEADER + bytes(size)] * count for count in _COUNTS}
        contenders = {str(count): repeated(lambda b=burst: sealer.seal_burst(b)) for count, burst in bursts.items()}  # type: ignore[misc]
        medians = interleave(contenders, rounds, seconds=0.01)
        figures[f"{size} bytes"] = {count: medians[str(count)] / count for count in _COUNTS}
    command = [sys.executable, "-c", _MEMORY, mode.value, "16384"]
    peak, of_sealer = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return {"ns a packet": figures, "peak memory of a burst, x its bytes": peak, "bytes of a sealer": of_sealer}


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Two tables."""
    yield (
        "seal_burst, ns a packet by packets a burst",
        [
            {"mode": mode, "payload": size, **{str(count): ns for count, ns in by_count.items()}}
            for mode, figures in report.items()
            for size, by_count in figures["ns a packet"].items()
        ],
    )
    yield (
        "Memory",
        [
            {"mode": mode, **{name: figures[name] for name in figures if name != "ns a packet"}}
            for mode, figures in report.items()
        ],
    )
