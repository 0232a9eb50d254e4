"""What ``dvcrypto bench`` found: as tables, as JSON."""

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dvcrypto.cli import info, show
from dvcrypto.cli.bench.recommend import KEPT, Recommendation
from dvcrypto.cli.bench.stream import AUDIO_RATE, VIDEO_RATE, WINDOW, Load, Usage, in_words
from dvcrypto.cli.bench.throughput import BURST, SIZES, VIDEO, VOICE, Timing, factors

WITHOUT_AES: Final = "AES-256-GCM without AES instructions"
NO_SEALING: Final = "no sealing: pacing and sending"

_CPUINFO: Final = Path("/proc/cpuinfo")
_TYPICAL: Final = (*VOICE, VIDEO)


@dataclass(frozen=True)
class Findings:
    """All that was measured, by the names of the rows, and what follows from it."""

    machine: dict[str, Any]
    notes: list[str]
    """What a reader must know: why a row is missing, or what became of a stream."""
    timings: dict[str, Timing]
    load: Load
    usages: dict[str, Usage]
    """One of them that of no sealing. Empty where no stream could be sent."""
    recommendation: Recommendation

    def sealing_share(self, name: str) -> float | None:
        """The share of a core, 0 to 1, that a row takes beyond pacing and sending; None where one lost its pace."""
        baseline, usage = self.usages[NO_SEALING], self.usages[name]
        if name == NO_SEALING or min(baseline.pace(), usage.pace()) < KEPT:
            return None
        return usage.mean() - baseline.mean()

    def load_in_words(self) -> str:
        """What was sent."""
        count = "" if self.load.streams == 1 else f"{self.load.streams} x "
        return f"{count}{in_words(self.load.bitrate)}, {self.load.windows * WINDOW:.3g} s each"


def machine() -> dict[str, Any]:
    """What was measured on."""
    return {"cpu": _cpu(), **info.collect()}


def _cpu() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def as_json(found: Findings) -> dict[str, Any]:
    """Ready for JSON. Times are in microseconds, shares in percent of a core."""
    return {
        "machine": found.machine,
        "notes": found.notes,
        "throughput": [
            {
                "name": name,
                "engine": timing.engine,
                "mib_per_second": {size: round(timing.mib_per_second(size), 2) for size in SIZES},
                "factor": {size: round(factors(found.timings, name)[size], 2) for size in SIZES},
                "us_per_burst": {size: round(BURST * timing.burst_ns[size] / 1e3, 2) for size in _TYPICAL},
                "us_per_packet_in_bursts": {size: round(timing.burst_ns[size] / 1e3, 3) for size in _TYPICAL},
                "us_per_packet_alone": {size: round(timing.single_ns[size] / 1e3, 3) for size in _TYPICAL},
            }
            for name, timing in found.timings.items()
        ],
        "stream": {
            "bitrate": found.load.bitrate,
            "streams": found.load.streams,
            "seconds": round(found.load.windows * WINDOW, 1),
            "packets_per_second": found.load.streams * found.load.packets_per_second(),
            "rows": [
                {
                    "name": name,
                    "cpu_percent": {
                        "mean": _percent(usage.mean()),
                        "p95": _percent(usage.percentile_95()),
                        "worst": _percent(usage.worst()),
                    },
                    "sealing_percent": _percent(found.sealing_share(name)),
                    "late_ms": round(usage.late_ms, 3),
                    "pace": round(usage.pace(), 4),
                    "windows_percent": [_percent(share) for share in usage.shares],
                }
                for name, usage in found.usages.items()
            ],
        },
        "recommendation": asdict(found.recommendation),
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)


def print_tables(found: Findings) -> None:
    """Tables for 80 columns, notes, and the recommendation last."""
    versions = found.machine["versions"]
    show.print_line(found.machine["cpu"])
    show.print_line(
        f"dvcrypto {versions['dvcrypto']}, libsodium {versions['libsodium']}, OpenSSL {versions['openssl']}, "
        f"Python {found.machine['python']}"
    )
    for title, columns, rows in _tables(found):
        show.print_line("")
        show.print_table(title, columns, rows)
    show.print_line("")
    for note in found.notes:
        show.print_text(note)
    show.print_text(f"Use {found.recommendation.mode}: {found.recommendation.reason}.", style="bold")
    show.print_text(f"{found.recommendation.choosing}.")


def _tables(found: Findings) -> Iterator[tuple[str, tuple[str, ...], Iterator[tuple[str, ...]]]]:
    title = f"Throughput in bursts of {BURST}\nMiB/s of payload; below it, the factor over the first row"
    yield title, ("payload, bytes", *(f"{size:,}" for size in SIZES)), _throughput_rows(found)
    explained = f"One sealed alone; one in a burst of {BURST}; below it, the whole burst"
    columns = ("", *(f"{kind}\n{size:,} B" for kind in ("alone", "burst") for size in _TYPICAL))
    yield f"Voice and video packets, microseconds\n{explained}", columns, _packet_rows(found)
    if found.usages:
        title = (
            f"Live over loopback: {found.load_in_words()}\n"
            f"{AUDIO_RATE} audio packets/s, {VIDEO_RATE} video frames/s\n"
            f"CPU share of the sending process, % of a core, by windows of {1e3 * WINDOW:.0f} ms"
        )
        yield title, ("", "mean", "95 % below", "worst", "of it\nsealing", "late at\nworst, ms"), _stream_rows(found)


def _throughput_rows(found: Findings) -> Iterator[tuple[str, ...]]:
    for name, timing in found.timings.items():
        times = factors(found.timings, name)
        cells = (f"{_figures(timing.mib_per_second(size))}\n{_figures(times[size])}x" for size in SIZES)
        yield (in_two_lines(name), *cells)


def _packet_rows(found: Findings) -> Iterator[tuple[str, ...]]:
    for name, timing in found.timings.items():
        alone = (f"{timing.single_ns[size] / 1e3:.2f}" for size in _TYPICAL)
        in_bursts = (timing.burst_ns[size] / 1e3 for size in _TYPICAL)
        yield (in_two_lines(name), *alone, *(f"{one:.2f}\n{_figures(BURST * one)}" for one in in_bursts))


def _stream_rows(found: Findings) -> Iterator[tuple[str, ...]]:
    for name, usage in found.usages.items():
        shares = (usage.mean(), usage.percentile_95(), usage.worst(), found.sealing_share(name))
        cells = ("-" if share is None else f"{100 * share:.2f}" for share in shares)
        yield (in_two_lines(name), *cells, _figures(usage.late_ms))


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def in_two_lines(name: str) -> str:
    """A row's name, broken where it reads best."""
    middle = len(name) / 2
    breaks = [index + 1 for index, character in enumerate(name) if character in " _"]
    at = min(breaks, key=lambda index: abs(index - middle))
    return f"{name[:at].rstrip()}\n{name[at:]}"
