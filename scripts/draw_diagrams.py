"""Draw the diagrams of docs/: ``python scripts/draw_diagrams.py``. The bars are the figures of docs/benchmarks.md.

Each is an SVG of boxes and words on white, so that it can be read on a dark page too.
"""

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs"
CLEAR, SEALED, ADDED, EMPTY = "#cfe3f7", "#f6d8c8", "#d8efd3", "#f2f2f2"
OURS, LIMIT, OTHERS = "#0072b2", "#7f7f7f", "#d55e00"  # of the palette of Okabe and Ito
WIDTH = 720
MARGIN = 12


class Box(NamedTuple):
    """A part of a packet."""

    words: str
    below: str
    width: int
    colour: str


def svg(height: int, title: str, parts: Iterable[str]) -> str:
    """A picture of these parts."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
            'font-family="sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *parts,
            "</svg>\n",
        )
    )


def words(x: float, y: float, content: str, *, anchor: str = "middle", size: int = 13, bold: bool = False) -> str:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{weight}>{escape(content)}</text>'


def row(y: int, boxes: Iterable[Box]) -> Iterable[str]:
    """Boxes side by side, each with its size below."""
    x = MARGIN
    for box in boxes:
        yield f'<rect x="{x}" y="{y}" width="{box.width}" height="36" fill="{box.colour}" stroke="#444"/>'
        yield words(x + box.width / 2, y + 23, box.words)
        yield words(x + box.width / 2, y + 52, box.below, size=11)
        x += box.width


def bracket(y: int, start: int, end: int, content: str) -> Iterable[str]:
    """What a span of boxes is, above them."""
    yield f'<path d="M{start + 2} {y + 6}V{y}H{end - 2}V{y + 6}" fill="none" stroke="#444"/>'
    yield words((start + end) / 2, y - 5, content, size=12)


def packet() -> str:
    """Where the parts of a sealed packet are."""
    rtp = [
        Box("RTP", "12 bytes", 70, CLEAR),
        Box("CSRCs", "4 each", 70, CLEAR),
        Box("X: profile, length", "4", 120, CLEAR),
        Box("extension's body", "4 a word", 120, SEALED),
        Box("payload", "any", 120, SEALED),
        Box("padding", "0 to 255", 70, SEALED),
        Box("tag", "16", 66, ADDED),
        Box("nonce", "4", 60, ADDED),
    ]
    rtcp = [
        Box("RTCP", "8 bytes", 260, CLEAR),
        Box("all the rest of the compound packet", "any", 310, SEALED),
        *rtp[-2:],
    ]
    parts = [words(MARGIN, 22, "RTP", anchor="start", bold=True)]
    parts += [*bracket(50, 12, 272, "clear; the associated data"), *bracket(50, 272, 582, "encrypted")]
    parts += [*bracket(50, 582, 708, "added: 20"), *row(58, rtp)]
    parts += [words(MARGIN, 146, "RTCP (second byte 192 to 223)", anchor="start", bold=True)]
    parts += [*bracket(174, 12, 272, "clear; the associated data"), *bracket(174, 272, 582, "encrypted")]
    parts += [*bracket(174, 582, 708, "added: 20"), *row(182, rtcp)]
    return svg(246, "The parts of a sealed packet", parts)


def nonce() -> str:
    """How the four bytes on the wire become a nonce."""
    suffix = Box("from the wire", "4 bytes", 116, ADDED)
    parts = [words(MARGIN, 22, "AES-256-GCM: 12 bytes", anchor="start", bold=True)]
    parts += row(32, [suffix, Box("0 0 0 0 0 0 0 0", "8", 232, EMPTY)])
    parts += [words(MARGIN, 116, "XChaCha20-Poly1305: 24 bytes", anchor="start", bold=True)]
    parts += row(126, [suffix, Box("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "20", 580, EMPTY)])
    return svg(190, "The nonce of each mode", parts)


class Bar(NamedTuple):
    """A way to seal a packet, and how long it takes."""

    name: str
    times: float
    colour: str


def bars_of(mode: str) -> tuple[list[Bar], str]:
    """The row of 200 bytes in the first table of a mode, and what 1 is in nanoseconds."""
    table = re.search(rf"^{mode}:\n\n(\|.*?)\n\n", (DOCS / "benchmarks.md").read_text(), re.MULTILINE | re.DOTALL)
    if table is None:
        message = f"docs/benchmarks.md has no table of {mode}"
        raise ValueError(message)
    heading, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines())
    figures = dict(zip(heading, next(cells for cells in rows if cells[0] == "200"), strict=True))
    bars = [Bar("plain C loop", 1 / float(figures["x limit"]), LIMIT), Bar("dvcrypto", 1.0, OURS)]
    others = [name for name in heading if name.endswith(", x seal_burst")]
    bars += [Bar(name.removesuffix(", x seal_burst"), float(figures[name]), OTHERS) for name in others]
    return sorted(bars, key=lambda bar: bar.times), figures["seal_burst, ns"]


def speed() -> str:
    """The time of one packet of 200 bytes, ours being 1."""
    parts: list[str] = []
    y = 0
    for mode in ("aead_aes256_gcm_rtpsize", "aead_xchacha20_poly1305_rtpsize"):
        bars, nanoseconds = bars_of(mode)
        parts.append(words(MARGIN, y + 24, f"{mode}: 1 is {nanoseconds} ns", anchor="start", bold=True))
        y += 36
        for bar in bars:
            length = bar.times * 42
            parts.append(words(172, y + 15, bar.name, anchor="end"))
            parts.append(f'<rect x="180" y="{y}" width="{length:.1f}" height="20" fill="{bar.colour}"/>')
            parts.append(
                words(186 + length, y + 15, f"{bar.times:.2g}" if bar.times < 1 else f"{bar.times:g}", anchor="start")
            )
            y += 26
        y += 8
    return svg(y, "Time to seal a packet of 200 bytes, dvcrypto's being 1; shorter is better", parts)


DRAWINGS = {"packet.svg": packet, "nonce.svg": nonce, "speed.svg": speed}


def main() -> None:
    """Draw them all."""
    for name, draw in DRAWINGS.items():
        (DOCS / name).write_text(draw())


if __name__ == "__main__":
    main()
