"""Every path of dvcrypto beside the limit and beside the peers: ns a packet, and ratios."""

from collections.abc import Callable, Iterator
from typing import Any

import dvcrypto
from benchmarks import limit, peers
from benchmarks.timing import Work, interleave, repeated

_HEADER = bytes.fromhex("8078000100000000000a0d10")
_SIZES = (2, 31, 136, 200, 1024, 1200, 8192, 16384)
_COUNTS = (1, 8, 64, 128)


def measure(*, full: bool) -> list[dict[str, Any]]:
    """A row for each mode, payload length, burst length and path."""
    sizes, counts = (_SIZES, _COUNTS) if full else ((200, 1200), (1, 64))
    return [
        row
        for mode in dvcrypto.Mode
        for size in sizes
        for count in counts
        for row in _case(mode, size, count, rounds=31 if full else 15)
    ]


def _case(mode: dvcrypto.Mode, size: int, count: int, rounds: int) -> Iterator[dict[str, Any]]:
    seal_limit, open_limit = limit.loops(mode, size, count)
    contenders: dict[str, Work] = {"limit, seal": seal_limit, "limit, open": open_limit}
    contenders |= {f"dvcrypto.{name}": repeated(once) for name, once in _ours(mode, size, count).items()}
    for name, seal in peers.installed(mode).items():
        contenders[name] = repeated(_one_by_one(seal, bytes(size), count))
    medians = interleave(contenders, rounds, seconds=0.004)
    for name, nanoseconds in medians.items():
        bound = medians["limit, open" if "open" in name else "limit, seal"]
        yield {
            "mode": mode.value,
            "bytes": size,
            "burst": count,
            "path": name,
            "ns a packet": nanoseconds / count,
            "x limit": nanoseconds / bound,
        }


def _ours(mode: dvcrypto.Mode, size: int, count: int) -> dict[str, Callable[[], object]]:
    sealer, opener = dvcrypto.Sealer(mode, peers.KEY), dvcrypto.Opener(mode, peers.KEY)
    payload = bytes(size)
    packets = [_HEADER + payload] * count
    sealed = sealer.seal_burst(packets).tolist()
    out = bytearray(sum(map(len, sealed)))
    stream = dvcrypto.RtpStream(sealer, 1, 101, max_packet=len(sealed[0]))
    frame = bytes(size * count)
    # A NAL unit that makes count packets of size bytes.
    unit = b"\0\0\1\x65" + b"\xab" * ((size - 2) * count if count > 1 else size - 1)
    paths: dict[str, Callable[[], object]] = {
        "seal_burst": lambda: sealer.seal_burst(packets),
        "seal_burst_into": lambda: sealer.seal_burst_into(packets, out),
        "seal_frame": lambda: stream.seal_frame(frame),
        "open_burst": lambda: opener.open_burst(sealed).statuses,
    }
    if size > 2:
        paths["seal_frame, h264"] = lambda: stream.seal_frame(unit, packetizer="h264")
    if count == 1:
        paths["seal"] = lambda: sealer.seal(_HEADER, payload)
        paths["open"] = lambda: opener.open(sealed[0])
        paths["open().payload"] = lambda: opener.open(sealed[0]).payload
    return paths


def _one_by_one(seal: peers.Seal, payload: bytes, count: int) -> Callable[[], object]:
    def work() -> None:
        for _ in range(count):
            seal(_HEADER, payload)

    return work


def tables(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A table for each mode and payload length."""
    for mode in dvcrypto.Mode:
        for size in sorted({row["bytes"] for row in rows}):
            chosen = [row for row in rows if row["mode"] == mode and row["bytes"] == size]
            columns = ("burst", "path", "ns a packet", "x limit")
            yield (
                f"{mode}, {size} bytes, against {limit.engine_for(mode, size)} in C",
                [{column: row[column] for column in columns} for row in chosen],
            )
