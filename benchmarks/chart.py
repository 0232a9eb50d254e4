"""``python -m benchmarks.chart REPORT.json CHART.svg``: ns a packet of bursts of 64, by payload length."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

_LINES = {
    "limit, seal": ("the linked libraries, plain C loop", "black", "--"),
    "dvcrypto.seal_burst": ("dvcrypto seal_burst", "#1f6feb", "-"),
    "dvcrypto.open_burst": ("dvcrypto open_burst", "#6cb6ff", "-"),
    "discord_native_voice": ("discord-native-voice", "#8957e5", ":"),
    "cryptography": ("cryptography AESGCM", "#d29922", ":"),
    "pynacl": ("PyNaCl Aead", "#2da44e", ":"),
    "discord_py": ("discord.py's own", "#cf222e", ":"),
}
_BURST = 64


def main() -> None:
    """Draw one panel for each mode, both axes logarithmic."""
    report, chart = map(Path, sys.argv[1:])
    rows = [row for row in json.loads(report.read_text())["paths"] if row["burst"] == _BURST]
    modes = sorted({row["mode"] for row in rows})
    mpl.rcParams.update({"svg.hashsalt": "dvcrypto", "font.size": 10})
    figure, panels = plt.subplots(1, len(modes), figsize=(11, 4.5), sharey=True)
    for panel, mode in zip(panels, modes, strict=True):
        _draw(panel, mode, [row for row in rows if row["mode"] == mode])
    panels[0].set_ylabel("ns a packet")
    figure.suptitle(f"Bursts of {_BURST} packets: the time of one, and what it can be at best")
    figure.tight_layout()
    figure.savefig(chart, metadata={"Date": None})


def _draw(panel: Any, mode: str, rows: list[dict[str, Any]]) -> None:
    for path, (label, colour, style) in _LINES.items():
        points = sorted((row["bytes"], row["ns a packet"]) for row in rows if row["path"] == path)
        if points:
            panel.plot(*zip(*points, strict=True), style, color=colour, label=label, marker="o", markersize=3)
    sizes = sorted({row["bytes"] for row in rows} - {136, 1024})  # too near to the next ones to be written
    panel.set(xscale="log", yscale="log", xlabel="payload, bytes", title=mode)
    panel.set_xticks(sizes, [str(size) for size in sizes], rotation=45)
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)


if __name__ == "__main__":
    main()
