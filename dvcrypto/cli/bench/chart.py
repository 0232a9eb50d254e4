"""The chart of ``dvcrypto bench``: throughput by payload length, and the CPU share of a live stream."""

import itertools
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from dvcrypto import Mode
from dvcrypto.cli.bench.report import WITHOUT_AES, Findings, in_two_lines
from dvcrypto.cli.bench.stream import WINDOW
from dvcrypto.cli.bench.throughput import BURST, SIZES

# Of the palette of Okabe and Ito, told apart by colour-blind people too.
_COLOURS: Final = {WITHOUT_AES: "#d55e00", Mode.XCHACHA20_POLY1305: "#0072b2", Mode.AES256_GCM: "#009e73"}
_COLOURS_OF_OTHERS: Final = ("#cc79a7", "#e69f00")
_NEUTRAL: Final = "#7f7f7f"
_SETTINGS: Final[Any] = {
    "font.size": 10,
    "svg.hashsalt": "dvcrypto",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(found: Findings, path: Path) -> None:
    """Draw it into a .svg or .png file."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(11, 5.4), layout="constrained", facecolor="white")
        if found.usages:
            throughput, stream = figure.subplots(1, 2)
            _draw_stream(stream, found)
        else:
            throughput = figure.subplots()
        _draw_throughput(throughput, found)
        use = found.recommendation
        figure.suptitle(f"Use {use.mode}:\n{use.reason}", fontsize=12, fontweight="bold")
        figure.supxlabel(_machine(found), fontsize=8, color=_NEUTRAL)
        drawn = BytesIO()
        figure.savefig(drawn, format=path.suffix.lower().lstrip("."), dpi=144)
    path.write_bytes(drawn.getvalue())


def _machine(found: Findings) -> str:
    versions = found.machine["versions"]
    return (
        f"{found.machine['cpu']}; dvcrypto {versions['dvcrypto']}, libsodium {versions['libsodium']}, "
        f"OpenSSL {versions['openssl']}, Python {found.machine['python']}"
    )


def _draw_throughput(axes: Any, found: Findings) -> None:
    """One line for each row; those of other libraries are dotted."""
    colours_of_others = itertools.cycle(_COLOURS_OF_OTHERS)
    for name, timing in found.timings.items():
        colour, style = (_COLOURS[name], "-") if name in _COLOURS else (next(colours_of_others), ":")
        heights = [timing.mib_per_second(size) for size in SIZES]
        axes.plot(SIZES, heights, style, color=colour, label=name, marker="o", markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="payload, bytes", ylabel="MiB/s of payload")
    axes.set_title(f"Throughput in bursts of {BURST}")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES], rotation=45, ha="right", fontsize=9)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")


def _draw_stream(axes: Any, found: Findings) -> None:
    """A bar for each mean, a line at the 95th percentile, and a dot for each window, so that spikes show."""
    for place, (name, usage) in enumerate(found.usages.items()):
        colour = _COLOURS.get(name, _NEUTRAL)
        shares = [100 * share for share in usage.shares]
        axes.barh(place, 100 * usage.mean(), color=colour, alpha=0.35, height=0.6)
        spread = [place + 0.5 * (index / len(shares) - 0.5) for index in range(len(shares))]
        axes.plot(shares, spread, ".", color=colour, markersize=4)
        axes.vlines(100 * usage.percentile_95(), place - 0.3, place + 0.3, color=colour)
        mean = f"{100 * usage.mean():.2f} %"
        beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontweight": "bold"}
        axes.annotate(mean, (0, place), bbox={"color": "white", "alpha": 0.7, "pad": 1}, **beside)
    axes.set_yticks(range(len(found.usages)), map(in_two_lines, found.usages))
    axes.invert_yaxis()
    label = f"% of a core: mean (bar), 95 % below (line), {1e3 * WINDOW:.0f} ms windows (dots)"
    axes.set(xlabel=label, xlim=(0, None))
    axes.xaxis.label.set_size(9)
    axes.set_title(f"CPU share of sending {found.load_in_words()}")
    axes.grid(axis="x", alpha=0.3)
