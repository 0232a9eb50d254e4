"""Inputs for fuzz targets to start from, in the form that each target reads.

Run as a script it writes tests/fuzz/corpus, of packets and frames that are our own. Those of other people's vectors are
made where the vectors are, when the targets run, and are never committed.
"""

import json
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from carving import counted, length

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(__file__).resolve().parent / "corpus"
VECTORS = Path(os.environ.get("DVCRYPTO_VECTORS", ROOT.parent / "shared" / "vectors"))
PACKETIZERS = ("plain", "opus", "h264", "h265", "vp8", "vp9", "av1")
VECTOR_MAX_LEN = 4000
AEAD_MAX_COUNT = 60  # of a file of vectors

Seed = tuple[str, str, bytes]
"""Target, name, input."""

FIXED = bytes.fromhex("78 0001 0000 03c0 0000 0d10")  # behind the first byte
PLAIN = {
    "rtp": b"\x80" + FIXED + b"payload",
    "empty": b"\x80" + FIXED,
    "csrcs": b"\x82" + FIXED + bytes(range(8)) + b"payload",
    "extension": b"\x90" + FIXED + bytes.fromhex("bede0001 107f0000") + b"payload",
    "padding": b"\xa0" + FIXED + b"payload\0\0\3",
    "everything": b"\xb1" + FIXED + bytes(4) + bytes.fromhex("10000001 01017f00") + b"payload\0\2",
    "padding-only": b"\xa0" + FIXED + b"\0\0\0\4",
    "padding-zero": b"\xa0" + FIXED + bytes(4),
    "padding-long": b"\xa0" + FIXED + b"\x09",
    "extension-long": b"\x90" + FIXED + bytes.fromhex("bede0009") + b"payload",
    "rtcp": bytes.fromhex("80c8 0006 0000 0d10") + bytes(20),
    "version": b"\x40" + FIXED + bytes(20),
}
NOT_MEDIA = {"keep-alive": bytes(8), "discovery": bytes.fromhex("00020046") + bytes(70), "nothing": b""}


def own() -> Iterator[Seed]:
    """Of what is made here, and of csrc/tests/real_frames.h."""
    for name, packet in {**PLAIN, **NOT_MEDIA}.items():
        yield "rtp", name, counted(packet)
    yield from own_bursts()
    for name, packetizer, frame in real_frames():
        yield "seal_frame", name, frame_seed(packetizer, frame, 100)
    yield "seal_frame", "extension", frame_seed("plain", bytes(100), 60, extension=bytes.fromhex("52000000"))
    yield "seal_frame", "changed", frame_seed("h264", bytes.fromhex("000001 65") + bytes(range(1, 90)), 60, change=1)
    yield "aead", "gcm", aead_seed(0, 0, bytes(32), bytes(12), b"associated", b"text")
    yield "aead", "gcm-16", aead_seed(0, 4, bytes(16), bytes(20), b"associated", b"text")
    yield "aead", "xchacha", aead_seed(1, 0, bytes(32), bytes(24), b"", bytes(100))
    datagrams = b"".join(bytes([1, 9, len(packet)]) + packet for packet in [*PLAIN.values(), *NOT_MEDIA.values()])
    yield "receiver", "one-by-one", bytes([255, 3]) + bytes([8, 1, 2]) * 12 + datagrams
    yield "receiver", "segments", bytes([200, 3]) + bytes([8, 2, 2]) * 12 + bytes([1, 1, 100, 33]) + bytes(200)
    yield "receiver", "too-long", bytes([10, 3]) + bytes([8, 0, 2]) * 12 + datagrams
    for number in range(11):
        yield "boundary", f"operation-{number}", bytes([number & 1]) + (bytes([number]) + bytes(12)) * 4
    for name, capture in captures().items():
        yield "captures", name, counted(capture) + counted(b"another payload")
    yield "captures", "text", counted(b"80 78 00 01")


def own_bursts() -> Iterator[Seed]:
    """A burst of all packets by its mode, window and layout; the packets one by one; the end of the nonces."""
    for name, packet in PLAIN.items():
        yield "open_burst", name, bytes([2, 2]) + sealed_packet(packet) + b"\3\0"
        yield "seal_burst", name, seal_seed(0, [packet])
    several = [PLAIN[name] for name in ("rtp", "rtcp", "extension")]
    for choice in (0, 1, 7, 8, 17):
        sealed = b"".join(map(sealed_packet, several))
        changed = b"\2" + counted(PLAIN["rtp"]) + bytes([0, 0, 0, 9, 1, 0, 20])
        discovery = b"\0" + counted(NOT_MEDIA["discovery"])
        yield "open_burst", f"several-{choice}", bytes([choice, 5]) + sealed + changed + discovery + b"\0"
        layout = bytes([1 | choice % 3 << 1])
        burst = layout + b"\3" + b"".join(map(counted, several)) + b"\0"
        yield "seal_burst", f"several-{choice}", bytes([choice & 3]) + bytes(4) + burst + burst
    burst = b"\1\3" + b"".join(map(counted, several)) + b"\0"
    yield "seal_burst", "exhausted", bytes([4, 3]) + burst + burst


def sealed_packet(plain: bytes) -> bytes:
    """A packet for open_burst to seal."""
    return b"\1" + counted(plain) + bytes([0x80, 0, 0, 0])


def seal_seed(mode: int, packets: list[bytes]) -> bytes:
    """Single packets for seal_burst."""
    return bytes([mode]) + bytes(4) + b"".join(b"\0" + counted(packet) + bytes(2) for packet in packets[:3])


def frame_seed(packetizer: str, frame: bytes, max_packet: int, *, extension: bytes = b"", change: int = 0) -> bytes:
    """A frame for seal_frame."""
    choice = PACKETIZERS.index(packetizer) << 1 | 32 | (64 if extension else 0)
    head = bytes([choice]) + length(max_packet) + bytes([101]) + (counted(extension) if extension else b"")
    return head + bytes([0xFF, 0xFF, 0, 1, change, 200, 0]) + frame


def real_frames() -> Iterator[tuple[str, str, bytes]]:
    """Name, packetizer and bytes."""
    header = (ROOT / "csrc" / "tests" / "real_frames.h").read_text()
    names = {array: packetizer for packetizer, array in re.findall(r'\{"(\w+)", (\w+), sizeof', header)}
    for array, body in re.findall(r"uint8_t (\w+)\[\] = \{(.*?)\};", header, re.DOTALL):
        yield array, names[array], bytes(int(byte, 16) for byte in re.findall(r"0x\w\w", body))


def aead_seed(mode: int, key: int, bytes_of_key: bytes, nonce: bytes, aad: bytes, text: bytes) -> bytes:
    """A message for aead; ``key`` is the index of the key's length there."""
    lengths = length(len(nonce)) + length(len(aad)) + length(len(text))
    return bytes([mode | key << 1]) + bytes_of_key + lengths + b"\1" + nonce + aad + text + bytes(4)


def captures() -> dict[str, bytes]:
    """A datagram over IPv4 and one over IPv6, in both formats and byte orders."""
    udp = struct.pack(">HHHH", 50000, 50001, 8 + len(PLAIN["rtp"]), 0) + PLAIN["rtp"]
    ip4 = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\xc0\0\2\1", b"\xc0\0\2\2") + udp
    ip6 = struct.pack(">IHBB16s16s", 6 << 28, len(udp), 17, 64, bytes(16), bytes(16)) + udp
    ethernet = bytes(12) + b"\x81\0\0\1\x08\0" + ip4
    found = {}
    for order, name in ((">", "big"), ("<", "little")):
        packets = [struct.pack(order + "IIII", 1, 2, len(ip), len(ip)) + ip for ip in (ip4, ip6)]
        header = struct.pack(order + "IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
        found[f"pcap-{name}"] = header + b"".join(packets)
        section = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
        interface = block(order, 1, struct.pack(order + "HHI", 1, 0, 0) + struct.pack(order + "HHI", 9, 1, 9))
        enhanced = block(order, 6, struct.pack(order + "IIIII", 0, 0, 9, len(ethernet), len(ethernet)) + ethernet)
        simple = block(order, 3, struct.pack(order + "I", len(ethernet)) + ethernet)
        found[f"pcapng-{name}"] = section + interface + enhanced + simple
    return found


def block(order: str, number: int, body: bytes) -> bytes:
    """A pcapng block."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", number) + size + body + size


def from_vectors() -> Iterator[Seed]:
    """Of other people's packets, frames and messages."""
    for path in sorted((VECTORS / "rtp").glob("*/rt*")):
        packet = path.read_bytes()[:VECTOR_MAX_LEN]
        yield "rtp", path.name, counted(packet)
        yield "open_burst", path.name, bytes([3, 2]) + sealed_packet(packet) + b"\3\0"
        yield "seal_burst", path.name, seal_seed(1, [packet])
    for path in sorted((VECTORS / "rtp").glob("*/*.pcap")):
        yield "captures", path.name, counted(path.read_bytes()[:VECTOR_MAX_LEN])
    for path in sorted((VECTORS / "discord").glob("*.json")):
        for number, text in enumerate(re.findall(r'"((?:[0-9a-f]{2}){28,})"', path.read_text())):
            packet = bytes.fromhex(text)
            yield "open_burst", f"{path.name}-{number}", b"\0\1\0" + counted(packet) + b"\0"
            yield "rtp", f"{path.name}-{number}", counted(packet)
    for path, mode in (("aes_gcm_test.json", 0), ("xchacha20_poly1305_test.json", 1)):
        yield from from_wycheproof(VECTORS / "wycheproof" / path, mode)


def from_wycheproof(path: Path, mode: int) -> Iterator[Seed]:
    """Messages."""
    tests = [test for group in json.loads(path.read_text())["testGroups"] for test in group["tests"]]
    for test in tests[:AEAD_MAX_COUNT]:
        parts = (bytes.fromhex(test[part]) for part in ("key", "iv", "aad", "msg"))
        key, nonce, aad, text = parts
        if len(key) in {16, 24, 32}:
            index = {32: 0, 16: 4, 24: 5}[len(key)]
            yield "aead", f"{path.stem}-{test['tcId']}", aead_seed(mode, index, key, nonce, aad, text)


def write(folder: Path, seeds: Iterator[Seed]) -> None:
    """One file a seed."""
    for target, name, data in seeds:
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(data)


def write_from_vectors(folder: Path) -> None:
    """Where there are none, say so."""
    if VECTORS.is_dir():
        write(folder, from_vectors())
    else:
        print(f"no third-party vectors in {VECTORS}; the targets start from tests/fuzz/corpus alone", file=sys.stderr)


if __name__ == "__main__":
    write(CORPUS, own())
