"""``dvcrypto bench``: which mode suits this machine."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import dvcrypto
from dvcrypto._library import ENGINE_VARIABLE
from dvcrypto.cli import show
from dvcrypto.cli.bench import masking, others, recommend, report, stream, throughput
from dvcrypto.cli.bench.recommend import KEPT, Recommendation
from dvcrypto.cli.bench.report import NO_SEALING, WITHOUT_AES, Findings
from dvcrypto.cli.bench.workers import Answer, Worker

_STREAMS: Final = 1000
_BITRATE_IN_ALL: Final = 10_000_000_000
_SECONDS: Final = (0.1, 3600.0)
_CHARTS: Final = (".svg", ".png")


class Row(NamedTuple):
    """One way to seal, and the environment that it takes."""

    name: str
    mode: dvcrypto.Mode
    environment: Mapping[str, str]


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench",
        help="measure which mode suits this machine",
        description="Measures AES-256-GCM without and with AES instructions, XChaCha20-Poly1305, and what is installed "
        "beside dvcrypto: throughput by payload length, and the CPU share of a live stream over loopback. Then says "
        "which mode suits this machine. It takes less than a minute.",
    )
    parser.add_argument(
        "--stream",
        type=stream.bitrate,
        default="10M",
        metavar="BITRATE",
        help="of the live stream, audio and video: bits a second, such as 500k, 2.5M or 10M (10M)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=8.0,
        metavar="S",
        help="how long the stream of each row takes (8); with less, throughput is measured shorter too",
    )
    parser.add_argument("--streams", type=_streams, default=1, metavar="N", help="how many streams at once (1)")
    parser.add_argument("--plot", type=_chart, metavar="FILE", help="draw a chart too: .svg or .png")
    show.add_json_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, show, recommend; 1 when no stream could be sent."""
    load = stream.Load(options.stream, options.streams, windows=round(options.seconds / stream.WINDOW))
    in_all = load.bitrate * load.streams
    if in_all > _BITRATE_IN_ALL:
        message = (
            f"{load.streams} streams of {stream.in_words(load.bitrate)} are {stream.in_words(in_all)} in all; "
            f"it must be at most {stream.in_words(_BITRATE_IN_ALL)}"
        )
        raise ValueError(message)
    found = measure(load, throughput.rounds_in(options.seconds))
    if options.json:
        show.print_json(report.as_json(found))
    else:
        report.print_tables(found)
    if options.plot:
        from dvcrypto.cli.bench import chart

        chart.draw(found, options.plot)
    return 0 if found.usages else 1


def measure(load: stream.Load, rounds: int) -> Findings:
    """Throughput, then the streams, and what follows from both."""
    measured, notes = rows(), conditions()
    with _progress() as progress:
        timings = _throughput(measured, rounds, progress("throughput", rounds))
        usages: dict[str, stream.Usage] = {}
        try:
            usages = _streams_sent(measured, load, progress("streams", load.windows * (len(measured) + 1)))
        except OSError as error:
            notes.append(f"No stream could be sent over loopback: {error}.")
    chosen = dvcrypto.choose_mode(list(dvcrypto.Mode))
    standing = {row.mode: row.name for row in measured}
    recommendation = recommend.recommend(
        {mode: timings[name] for mode, name in standing.items()},
        {mode: usages[name] for mode, name in standing.items()} if usages else None,
        load,
        chosen,
    )
    notes += _stream_notes(usages, recommendation)
    return Findings(report.machine(), notes, timings, load, usages, recommendation)


def rows() -> list[Row]:
    """What this machine can measure, without other libraries; of a mode's rows, the last is the best that there is."""
    gcm, xchacha = dvcrypto.Mode.AES256_GCM, dvcrypto.Mode.XCHACHA20_POLY1305
    possible = [Row(xchacha, xchacha, {})]
    if not _has_aes() or masking.can_mask():
        possible.insert(0, Row(WITHOUT_AES, gcm, masking.masked_environment()))
    if _has_aes():
        possible.append(Row(gcm, gcm, {}))
    return possible


def conditions() -> list[str]:
    """What a reader must know before the figures."""
    told = []
    if masking.is_masked():
        told.append(
            f"{masking.MASK_VARIABLE} masks this CPU's AES instructions: all is measured as on a machine without them. "
            f"libsodium does not heed the mask, so AES-256-GCM is {masking.ENGINE} alone."
        )
    elif not _has_aes():
        told.append("This CPU has no AES instructions: the row without them is all there is of AES-256-GCM.")
    elif not masking.can_mask():
        told.append("The AES instructions of this platform cannot be masked: there is no row without them.")
    if masking.masks_more():
        told.append(
            f"This mask hides AVX2 too, which slows OpenSSL's ChaCha20 down: {masking.AES_ALONE} would hide AES alone."
        )
    if os.environ.get(ENGINE_VARIABLE):
        told.append(f"{ENGINE_VARIABLE}={os.environ[ENGINE_VARIABLE]} forces what serves.")
    if sys.platform == "win32":
        told.append("Windows counts CPU time in steps of 16 ms: of a stream's shares, only the mean tells much.")
    return told


def _has_aes() -> bool:
    return dvcrypto.aes_accelerated() and not masking.is_masked()


def _stream_notes(usages: Mapping[str, stream.Usage], recommendation: Recommendation) -> list[str]:
    behind = [f"{name} ({usage.pace():.0%} of it)" for name, usage in usages.items() if usage.pace() < KEPT]
    if behind:
        return [f"Could not keep the pace: {', '.join(behind)}. Fewer streams or a lower bitrate would tell more."]
    if usages and recommendation.saved_share is None:
        return ["The CPU shares of the streams differ by no more than chance; with more --seconds they may."]
    return []


def _throughput(measured: list[Row], rounds: int, advance: Callable[[], None]) -> dict[str, throughput.Timing]:
    with _workers(throughput.answer) as worker:
        ours = [throughput.Contender(row.name, row.mode, worker(row.environment)) for row in measured]
        theirs = [throughput.Contender(name, name, worker({})) for name in others.installed()]
        return throughput.measure(ours + theirs, rounds, advance)


def _streams_sent(measured: list[Row], load: stream.Load, advance: Callable[[], None]) -> dict[str, stream.Usage]:
    with _workers(stream.answer) as worker:
        senders = [stream.Sender(row.name, row.mode, worker(row.environment)) for row in measured]
        return stream.measure([stream.Sender(NO_SEALING, None, worker({})), *senders], load, advance)


@contextmanager
def _workers(answer: Answer) -> Iterator[Callable[[Mapping[str, str]], Worker]]:
    """Makes one worker for each environment: what shares it shares a process, and differs in nothing but sealing."""
    with ExitStack() as stack:
        made: dict[frozenset[tuple[str, str]], Worker] = {}

        def worker(environment: Mapping[str, str]) -> Worker:
            key = frozenset(environment.items())
            if key not in made:
                made[key] = stack.enter_context(Worker(answer, environment))
            return made[key]

        yield worker


@contextmanager
def _progress() -> Iterator[Callable[[str, int], Callable[[], None]]]:
    """Makes a bar on standard error, and what advances it by one; nothing is drawn where nobody watches."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def bar(name: str, steps: int) -> Callable[[], None]:
            task = progress.add_task(name, total=steps)
            return lambda: progress.advance(task)

        yield bar


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not _SECONDS[0] <= value <= _SECONDS[1]:
        message = f"the time is {text!r}; it must be {_SECONDS[0]} to {_SECONDS[1]:.0f} seconds"
        raise argparse.ArgumentTypeError(message)
    return value


def _streams(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= _STREAMS:
        message = f"the number of streams is {text!r}; it must be 1 to {_STREAMS}"
        raise argparse.ArgumentTypeError(message)
    return value


def _chart(text: str) -> Path:
    """A file that can be drawn, found out before anything is measured."""
    path = Path(text)
    if path.suffix.lower() not in _CHARTS:
        message = f"the chart is {text!r}; it must end in {' or '.join(_CHARTS)}"
        raise argparse.ArgumentTypeError(message)
    if not path.parent.is_dir():
        message = f"there is no folder {path.parent}"
        raise argparse.ArgumentTypeError(message)
    if importlib.util.find_spec("matplotlib") is None:
        message = "a chart needs matplotlib; install it with: pip install 'dvcrypto[plot]'"
        raise argparse.ArgumentTypeError(message)
    return path
