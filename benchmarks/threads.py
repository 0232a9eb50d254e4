"""Threads: two sealers on two cores, short bursts beside a busy Python thread, long ones that let others run.

Two processes, which share no lock and no GIL, show what the machine itself gives for a second core.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import dvcrypto
from benchmarks import peers

_HEADER = bytes.fromhex("8078000100000000000a0d10")


def measure(*, full: bool) -> dict[str, Any]:
    """The figures of each mode."""
    return {mode.value: _measure(mode, full=full) for mode in dvcrypto.Mode}


def _measure(mode: dvcrypto.Mode, *, full: bool) -> dict[str, Any]:
    rounds, seconds = (9, 1.0) if full else (5, 0.4)
    threads, processes = [], []
    for _ in range(rounds):
        alone = _packets_a_second(mode, 1, seconds)
        threads.append(_packets_a_second(mode, 2, seconds) / alone)
        processes.append(_in_processes(mode, 2, seconds) / alone)
    waits = sorted(_waits_beside_a_busy_thread(mode, 3000 if full else 1000))
    return {
        "two threads, bursts of 64 x 1200 bytes, x one thread": statistics.median(threads),
        "two processes, the same, x one thread": statistics.median(processes),
        "25 x 200 bytes beside a busy thread, median ms": 1e3 * statistics.median(waits),
        "25 x 200 bytes beside a busy thread, 99th percentile ms": 1e3 * waits[len(waits) * 99 // 100],
        "share of its speed a busy thread keeps beside bursts of 4096 x 1200 bytes": _share_kept(mode, seconds),
    }


def _packets_a_second(mode: dvcrypto.Mode, threads: int, seconds: float) -> float:
    packets = [_HEADER + bytes(1200)] * 64
    sealed = [0] * threads
    start = threading.Barrier(threads + 1)

    def work(number: int) -> None:
        sealer = dvcrypto.Sealer(mode, peers.KEY)
        start.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sealed[number] += len(sealer.seal_burst(packets))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    for worker in workers:
        worker.join()
    return sum(sealed) / seconds


_PROCESS = """
import sys
from benchmarks.threads import _packets_a_second
mode, seconds = sys.argv[1], float(sys.argv[2])
_packets_a_second(mode, 1, 0.01)
print(flush=True)
input()
print(_packets_a_second(mode, 1, seconds))
"""


def _in_processes(mode: dvcrypto.Mode, count: int, seconds: float) -> float:
    command = [sys.executable, "-c", _PROCESS, mode.value, str(seconds)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()  # it is ready
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    return sum(float(process.communicate()[0]) for process in processes)


class _Busy:
    """A Python thread that counts."""

    def __enter__(self) -> Self:
        self.turns = 0
        self._running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while self._running:
            self.turns += 1

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._thread.join()


def _waits_beside_a_busy_thread(mode: dvcrypto.Mode, bursts: int) -> list[float]:
    """The seconds that each burst took, one a millisecond, while another thread spins."""
    sealer, packets, waits = dvcrypto.Sealer(mode, peers.KEY), [_HEADER + bytes(200)] * 25, []
    with _Busy():
        for _ in range(bursts):
            began = time.perf_counter()
            sealer.seal_burst(packets)
            waits.append(time.perf_counter() - began)
            time.sleep(0.001)
    return waits


def _share_kept(mode: dvcrypto.Mode, seconds: float) -> float:
    with _Busy() as alone:
        time.sleep(seconds)
    sealer, packets = dvcrypto.Sealer(mode, peers.KEY), [_HEADER + bytes(1200)] * 4096
    with _Busy() as beside:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sealer.seal_burst(packets)
    return beside.turns / alone.turns


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One table."""
    names = next(iter(report.values()))
    rows = [{"": name, **{mode: figures[name] for mode, figures in report.items()}} for name in names]
    yield f"Threads (switch interval {1e3 * sys.getswitchinterval():.0f} ms)", rows
