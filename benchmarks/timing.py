"""Timing side by side: contenders take turns, so that a busy machine disturbs all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[int], object]
"""Does its work so many times over."""


def repeated(once: Callable[[], object]) -> Work:
    """Work that calls a function again and again."""

    def work(times: int) -> None:
        for _ in range(times):
            once()

    return work


def interleave(contenders: Mapping[str, Work], rounds: int, seconds: float) -> dict[str, float]:
    """The median time of each contender's work, done once, in ns; each of the rounds takes ``seconds`` of each."""
    times = {name: _times_in(work, seconds) for name, work in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    gc.disable()
    try:
        for _ in range(rounds):
            for name, work in contenders.items():
                samples[name].append(_measure(work, times[name]))
    finally:
        gc.enable()
    return {name: statistics.median(of_one) for name, of_one in samples.items()}


def _measure(work: Work, times: int) -> float:
    began = time.perf_counter_ns()
    work(times)
    return (time.perf_counter_ns() - began) / times


def _times_in(work: Work, seconds: float) -> int:
    """How often the work can be done in so many seconds."""
    times = 1
    while (taken := _measure(work, times) * times) < 1e9 * seconds / 2:
        times = max(2 * times, min(100 * times, int(times * 1e9 * seconds / max(taken, 1))))
    return times
