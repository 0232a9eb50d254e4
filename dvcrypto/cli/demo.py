"""``dvcrypto demo``: real RTP sealed in bursts, sent over loopback UDP to a second process, opened and checked."""

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import dvcrypto
from dvcrypto.cli import reference, show
from dvcrypto.cli.captures import open_capture
from dvcrypto.cli.media import is_media

_OWN_CAPTURE: Final = Path(__file__).with_name("demo.pcap")
_BURST: Final = 64
_ROUNDS: Final = 21  # over the whole capture, to time with; the median counts
_PATIENCE: Final = 5.0  # seconds without a datagram until the rest counts as lost
_DIFFERENCES_SHOWN: Final = 5
_ACKNOWLEDGEMENT: Final = b"burst received"


@dataclass
class Received:
    """What the second process returns: the packets that it opened, in order, and the time that opening one takes."""

    plain: list[bytes | None]
    microseconds: float


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="seal real RTP, send it over loopback, open and check it",
        description="Takes the RTP and RTCP of a capture, seals it in bursts in both modes, sends it over loopback UDP "
        "to a second process that opens it, and holds every packet against the cryptography package.",
    )
    parser.add_argument(
        "--capture",
        type=Path,
        default=_OWN_CAPTURE,
        metavar="FILE",
        help="plain RTP, pcap or pcapng (a small one of ours)",
    )
    show.add_json_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demonstration in every mode; 1 when anything differed."""
    packets, left_out = _read(options.capture)
    if not packets:
        message = f"{options.capture} has no plain RTP or RTCP over UDP"
        raise ValueError(message)
    chosen = dvcrypto.choose_mode(list(dvcrypto.Mode))
    rows = [_demonstrate(mode, packets) for mode in dvcrypto.Mode]
    if options.json:
        show.print_json({"capture": str(options.capture), "mode_chosen": chosen, "left_out": left_out, "modes": rows})
    else:
        _show(options.capture, chosen, left_out, rows)
    return 1 if any(row["differences"] for row in rows) else 0


def _read(path: Path) -> tuple[list[bytes], list[str]]:
    """The plain media packets of a capture, and why any that look like media were left out."""
    packets, left_out = [], []
    trial = dvcrypto.Sealer(dvcrypto.Mode.XCHACHA20_POLY1305, os.urandom(32))
    with open_capture(path) as capture:
        for record in capture:
            if record.cut:
                left_out.append(record.cut)
            if record.udp is None or not is_media(record.udp, frozenset()):
                continue
            try:
                trial.seal_burst([record.udp.payload])
            except ValueError as error:
                left_out.append(f"packet {record.number} " + str(error).removeprefix("packets[0] "))
            else:
                packets.append(record.udp.payload)
    return packets, left_out


def _demonstrate(mode: dvcrypto.Mode, packets: list[bytes]) -> dict[str, Any]:
    """Seal, send, open and check in one mode."""
    key = os.urandom(32)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    receiver = context.Process(target=_receive, args=(theirs, mode, key, len(packets)), daemon=True)
    receiver.start()
    theirs.close()
    try:
        with dvcrypto.Sealer(mode, key) as sealer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", ours.recv()))
            sock.settimeout(_PATIENCE)
            sealed = _send(sock, sealer, packets)
            microseconds = _microseconds(sealer.seal_burst, packets)
            engine = sealer.engine
        received: Received = ours.recv()
    finally:
        ours.close()
        receiver.join(_PATIENCE)
        if receiver.is_alive():
            receiver.kill()
    return {
        "mode": mode,
        "engine": engine,
        "packets": len(packets),
        "bytes": sum(map(len, packets)),
        "seal_us_per_packet": round(microseconds, 3),
        "open_us_per_packet": round(received.microseconds, 3),
        "differences": _differences(mode, key, packets, sealed, received.plain),
    }


def _send(sock: socket.socket, sealer: dvcrypto.Sealer, packets: list[bytes]) -> list[bytes]:
    """Seal and send burst by burst, each after the last was received. Returns the sealed packets."""
    sealed: list[bytes] = []
    for start in range(0, len(packets), _BURST):
        burst = sealer.seal_burst(packets[start : start + _BURST])
        for packet in burst:
            sock.send(packet)
        sealed += burst.tolist()
        try:
            sock.recv(len(_ACKNOWLEDGEMENT))
        except TimeoutError:
            break  # what did not arrive is told packet by packet
    return sealed


def _receive(connection: Connection, mode: dvcrypto.Mode, key: bytes, count: int) -> None:
    """The second process: receive bursts, open each in one call."""
    received: list[bytes] = []
    plain: list[bytes | None] = []
    opener = dvcrypto.Opener(mode, key, replay_window=1024)
    with closing(connection), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(_PATIENCE)
        connection.send(sock.getsockname()[1])
        try:
            while len(plain) < count:
                packets = []
                for _ in range(min(_BURST, count - len(plain))):
                    packet, sender = sock.recvfrom(65535)
                    packets.append(packet)
                sock.sendto(_ACKNOWLEDGEMENT, sender)
                plain += [packet.plain if packet else None for packet in opener.open_burst(packets)]
                received += packets
        except TimeoutError:
            pass
        connection.send(Received(plain, _microseconds(dvcrypto.Opener(mode, key).open_burst, received)))


def _microseconds(work: Callable[[list[bytes]], object], packets: list[bytes]) -> float:
    """The time of one packet when bursts of them are worked on: the median of several rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for start in range(0, len(packets), _BURST):
            work(packets[start : start + _BURST])
        rounds.append(time.perf_counter() - began)
    return 1e6 * statistics.median(rounds) / max(1, len(packets))


def _differences(
    mode: dvcrypto.Mode, key: bytes, packets: list[bytes], sealed: list[bytes], opened: list[bytes | None]
) -> list[str]:
    """What is not as it should be: sealed bytes against cryptography's, opened bytes against the input."""
    found = []
    for index, packet in enumerate(packets):
        if index >= len(sealed) or index >= len(opened):
            found.append(f"media packet {index + 1} did not arrive")
        elif sealed[index] != reference.seal(mode, key, packet, sealed[index][-4:]):
            found.append(f"media packet {index + 1} was sealed to other bytes than cryptography's")
        elif opened[index] != packet:
            found.append(f"media packet {index + 1} was opened to other bytes than it had")
    suffixes = {packet[-4:] for packet in sealed}
    if len(suffixes) < len(sealed):
        found.append(f"{len(sealed) - len(suffixes)} nonces were used twice")
    return found


def _show(capture: Path, chosen: dvcrypto.Mode, left_out: list[str], rows: list[dict[str, Any]]) -> None:
    facts: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
        ("mode", lambda row: row["mode"]),
        ("chosen where both are offered", lambda row: "yes" if row["mode"] == chosen else "no"),
        ("packets", lambda row: f"{row['packets']:,}"),
        ("bytes", lambda row: f"{row['bytes']:,}"),
        ("seal, us a packet", lambda row: f"{row['seal_us_per_packet']:.2f}"),
        ("open, us a packet", lambda row: f"{row['open_us_per_packet']:.2f}"),
        ("engine", lambda row: row["engine"].replace(", ", "\n")),
        (
            "against cryptography",
            lambda row: f"{len(row['differences'])} differ" if row["differences"] else "all equal",
        ),
    ]
    columns = ("", *(row["mode"].name for row in rows))
    show.print_table("Sealed, sent, opened", columns, ((name, *map(fact, rows)) for name, fact in facts))
    source = "the package's own capture (Opus, H.264, RTCP)" if capture == _OWN_CAPTURE else str(capture)
    show.print_line(f"Source: {source}; bursts of {_BURST} over UDP on 127.0.0.1.")
    for row in rows:
        for difference in row["differences"][:_DIFFERENCES_SHOWN]:
            show.print_line(f"{row['mode']}: {difference}")
    for reason in left_out[:_DIFFERENCES_SHOWN]:
        show.print_line(f"left out: {reason}")
    if len(left_out) > _DIFFERENCES_SHOWN:
        show.print_line(f"and {len(left_out) - _DIFFERENCES_SHOWN} more left out")
