"""How long sealing takes, measured in processes of their own that take turns, so that all are disturbed alike."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import dvcrypto
from dvcrypto.cli.bench import others
from dvcrypto.cli.bench.workers import Worker
from dvcrypto.modes import serving

SIZES: Final = (2, 31, 136, 1024, 8192, 16384)  # bytes of payload, of the table
VOICE: Final = (136, 200)  # bytes of payload that voice packets have
VIDEO: Final = 1200  # and full video packets
BURST: Final = 64

_BURST_SIZES: Final = tuple(sorted({*SIZES, *VOICE, VIDEO}))
_SINGLE_SIZES: Final = (*VOICE, VIDEO)
_ROUNDS: Final = range(3, 26)
_SAMPLE: Final = 0.004  # seconds
_PATIENCE: Final = 15.0  # seconds after which fewer rounds must do
_HEADER: Final = bytes.fromhex("8078000100000000000a0d10")
_KEY: Final = bytes(range(32))

# CPU time leaves out what other processes take of this core meanwhile. Windows counts it in steps of 15 ms.
_NOW: Final = time.perf_counter_ns if sys.platform == "win32" else time.process_time_ns


@dataclass(frozen=True)
class Contender:
    """What seals: a mode of ours or another library, in the process that measures it."""

    name: str
    how: str
    """A mode's name, or the name of one of the others."""
    worker: Worker


@dataclass
class Timing:
    """One contender's median times, by bytes of payload."""

    engine: str
    burst_ns: dict[int, float] = field(default_factory=dict)
    """Of one packet in a burst of 64, made by one call."""
    single_ns: dict[int, float] = field(default_factory=dict)
    """Of one packet, made by one call."""

    def mib_per_second(self, size: int) -> float:
        """Of payload, in bursts."""
        return 1e9 * size / self.burst_ns[size] / 2**20


def rounds_in(seconds: float) -> int:
    """How many rounds go with streams of so many seconds: all in 5 s, few where the streams are short too."""
    return min(max(round(5 * seconds), _ROUNDS[0]), _ROUNDS[-1])


def measure(contenders: list[Contender], rounds: int, advance: Callable[[], None]) -> dict[str, Timing]:
    """Every contender's times by name, in interleaved rounds; ``advance`` is called after each.

    A machine that is slow or busy gets fewer rounds.
    """
    samples: dict[tuple[str, int, int], list[float]] = {}
    began = time.perf_counter()
    for number in range(rounds):
        if number >= _ROUNDS[0] and time.perf_counter() - began > _PATIENCE:
            break
        for size, count in _cases():
            for contender in contenders:
                told = contender.worker.ask(how=contender.how, size=size, count=count)
                samples.setdefault((contender.name, size, count), []).append(told["ns"])
        advance()
    timings = {
        contender.name: Timing(contender.worker.ask(how=contender.how, size=0, count=0)["engine"])
        for contender in contenders
    }
    for (name, size, count), of_case in samples.items():
        times = timings[name].single_ns if count == 1 else timings[name].burst_ns
        times[size] = statistics.median(of_case)
    return timings


def _cases() -> Iterator[tuple[int, int]]:
    for size in _BURST_SIZES:
        yield size, BURST
        if size in _SINGLE_SIZES:
            yield size, 1


def answer(how: str, size: int, count: int) -> dict[str, Any]:
    """In the worker: one sample, ns a packet, of packets sealed ``count`` at a time; of none, the engine."""
    if not count:
        return {"engine": serving(dvcrypto.Mode(how)) if how in list(dvcrypto.Mode) else how}
    work, times = _work(how, size, count), _times(how, size, count)
    work()  # another process had the core
    return {"ns": _measure(work, times) / count}


@cache
def _work(how: str, size: int, count: int) -> Callable[[], object]:
    payload = bytes(size)
    if how in list(dvcrypto.Mode):
        sealer, packets = dvcrypto.Sealer(how, _KEY), [_HEADER + payload] * count
        if count == 1:
            return lambda: sealer.seal(_HEADER, payload)
        return lambda: sealer.seal_burst(packets)
    seal = others.installed()[how](_KEY)

    def one_by_one() -> None:
        for _ in range(count):
            seal(_HEADER, payload)

    return one_by_one


@cache
def _times(how: str, size: int, count: int) -> int:
    """How often the work is done in one sample."""
    work, times = _work(how, size, count), 1
    while (taken := _measure(work, times) * times) < 1e9 * _SAMPLE / 2:
        times = max(2 * times, min(100 * times, int(times * 1e9 * _SAMPLE / max(taken, 1))))
    return times


def _measure(work: Callable[[], object], times: int) -> float:
    """Ns for the work done once."""
    began = _NOW()
    for _ in range(times):
        work()
    return (_NOW() - began) / times


def factors(timings: Mapping[str, Timing], name: str) -> dict[int, float]:
    """How many times as fast as the first contender one is, by bytes of payload."""
    first = next(iter(timings.values()))
    return {size: first.burst_ns[size] / timings[name].burst_ns[size] for size in _BURST_SIZES}
