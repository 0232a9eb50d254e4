"""Captures pass through byte for byte, and a replaced UDP payload leaves a valid packet.

scapy builds the packets and judges the results; where tshark is installed it judges too. Files are
built here field by field from draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dpkt", reason="captures need the extra dvcrypto[cli]")
pytest.importorskip("scapy", reason="scapy builds and checks the packets")

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_RR
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import rdpcap

from dvcrypto.cli.captures import (
    RECORD_LIMIT,
    Capture,
    CaptureError,
    CaptureWriter,
    Record,
    open_capture,
)

PROJECT = Path(__file__).resolve().parent.parent
VECTORS = Path(os.environ.get("DVCRYPTO_VECTORS", PROJECT.parent / "shared" / "vectors"))
REAL_CAPTURES = ("h264.pcap", "vp8.pcap")
MICRO, NANO = 0xA1B2C3D4, 0xA1B23C4D

Rewrite = Callable[[bytes], bytes]


# Building files


def pcap(
    *frames: bytes,
    link_type: int = 1,
    order: str = "<",
    magic: int = MICRO,
    original: int | None = None,
    snap_length: int = 65535,
) -> bytes:
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)
    for i, frame in enumerate(frames):
        length = len(frame) if original is None else original
        data += struct.pack(order + "IIII", 1700000000, 123456 + i, len(frame), length) + frame
    return data


def block(order: str, block_type: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", block_type) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str) -> bytes:
    options = option(order, 1, b"a section comment") + option(order, 0, b"")
    body = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    return block(order, 0x0A0D0D0A, body + options)


def interface(order: str, link_type: int, resolution: int = 6, snap_length: int = 0) -> bytes:
    options = option(order, 9, bytes([resolution])) + option(order, 0, b"")
    return block(order, 1, struct.pack(order + "HHI", link_type, 0, snap_length) + options)


def enhanced(order: str, number: int, frame: bytes, pad: bytes = b"\0", original: int | None = None) -> bytes:
    length = len(frame) if original is None else original
    head = struct.pack(order + "IIIII", number, 0x18BCF, 0xE5A9, len(frame), length)
    options = option(order, 1, b"a packet comment") + option(order, 2, b"\1\0\0\0")
    return block(order, 6, head + frame + pad * (-len(frame) % 4) + options + bytes(4))


def obsolete(order: str, number: int, frame: bytes) -> bytes:
    head = struct.pack(order + "HHIIII", number, 7, 1, 2, len(frame), len(frame))
    return block(order, 2, head + frame)


def simple(order: str, frame: bytes) -> bytes:
    return block(order, 3, struct.pack(order + "I", len(frame)) + frame)


def furniture(order: str) -> bytes:
    """Blocks without packets: name resolution, interface statistics, custom, and an unknown one."""
    names = struct.pack(order + "HH4s", 1, 12, b"\x0a\0\0\1") + b"example\0" + bytes(4)
    statistics = struct.pack(order + "III", 0, 1, 2) + option(order, 4, bytes(8)) + bytes(4)
    return (
        block(order, 4, names)
        + block(order, 5, statistics)
        + block(order, 0xBAD, struct.pack(order + "I", 32473) + b"custom data")
        + block(order, 0x40000BAD, struct.pack(order + "I", 32473) + b"not to be copied")
        + block(order, 9, b"__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=journal\n")
        + block(order, 0x7FFFFFF0, b"unknown block")
    )


# Building packets

ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")  # else scapy asks the network
OLD_TAGS = Ether(src=ETHERNET.src, dst=ETHERNET.dst, type=0x9100)
PORTS: dict[str, Any] = {"sport": 50001, "dport": 50002}
V4: dict[str, Any] = {"src": "192.0.2.1", "dst": "198.51.100.7"}
V6: dict[str, Any] = {"src": "2001:db8::1", "dst": "2001:db8:1::7"}


def v4_options(payload: bytes) -> Any:
    options = [IPOption_NOP(), IPOption_RR(pointer=4, routers=["0.0.0.0", "0.0.0.0"])]
    return IP(**V4, ttl=9, options=options) / UDP(**PORTS) / Raw(payload)


def v6_extensions(payload: bytes) -> Any:
    extensions = (
        IPv6ExtHdrHopByHop()
        / IPv6ExtHdrDestOpt()
        / IPv6ExtHdrRouting(addresses=["2001:db8::9"], segleft=0)
        / IPv6ExtHdrDestOpt()
    )
    return IPv6(**V6) / extensions / UDP(**PORTS) / Raw(payload)


NETWORKS: dict[str, Callable[[bytes], Any]] = {
    "v4": lambda payload: IP(**V4) / UDP(**PORTS) / Raw(payload),
    "v4-options": v4_options,
    "v6": lambda payload: IPv6(**V6) / UDP(**PORTS) / Raw(payload),
    "v6-extensions": v6_extensions,
}


def family(network: Any, order: str, v6: int = 30) -> bytes:
    return struct.pack(order + "I", 2 if IP in network else v6)


def ethertype(network: Any) -> int:
    return 0x0800 if IP in network else 0x86DD


LINKS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "ethernet": (1, lambda n: bytes(ETHERNET / n)),
    "ethernet-fcs": (0x24000001, lambda n: bytes(ETHERNET / n) + b"\xfc\x50\xde\xad"),
    "802.1Q": (1, lambda n: bytes(ETHERNET / Dot1Q(vlan=5) / n)),
    "802.1ad": (1, lambda n: bytes(ETHERNET / Dot1AD(vlan=5) / Dot1Q(vlan=6) / n)),
    "four-tags": (1, lambda n: bytes(ETHERNET / Dot1AD() / Dot1AD() / Dot1Q() / Dot1Q() / n)),
    "old-tags": (1, lambda n: bytes(OLD_TAGS / Dot1Q(type=0x9200) / Dot1Q() / n)),
    "sll": (113, lambda n: bytes(CookedLinux(proto=ethertype(n)) / n)),
    "sll-vlan": (113, lambda n: bytes(CookedLinux(proto=0x8100) / Dot1Q(vlan=5) / n)),
    "sll2": (276, lambda n: bytes(CookedLinuxV2(proto=ethertype(n)) / n)),
    "raw": (101, bytes),
    "raw-v4": (228, bytes),
    "raw-v6": (229, bytes),
    "raw-12": (12, bytes),
    "raw-14": (14, bytes),
    "null-le": (0, lambda n: family(n, "<") + bytes(n)),
    "null-be": (0, lambda n: family(n, ">", 24) + bytes(n)),
    "loop": (108, lambda n: family(n, ">", 28) + bytes(n)),
}


def cases() -> list[Any]:
    both = [(link, network) for link in LINKS for network in NETWORKS]
    return [pytest.param(*case, id="-".join(case)) for case in both]


# Reading and rewriting


def write_file(tmp_path: Path, data: bytes, name: str = "in.pcap") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def records(tmp_path: Path, data: bytes) -> list[Record]:
    with open_capture(write_file(tmp_path, data)) as capture:
        return list(capture)


def only_packet(tmp_path: Path, data: bytes) -> Record:
    (record,) = [r for r in records(tmp_path, data) if r.number is not None]
    return record


def rewrite(tmp_path: Path, data: bytes, change: Rewrite | None) -> bytes:
    out = io.BytesIO()
    writer = CaptureWriter(out)
    for record in records(tmp_path, data):
        if record.udp is None or change is None:
            writer.write(record)
        else:
            writer.write(record, payload=change(record.udp.payload))
    return out.getvalue()


def seal(payload: bytes) -> bytes:
    """As long as a sealed packet, and with every word changed."""
    return bytes(byte ^ 0x5A for byte in payload) + bytes(range(100, 120))


def unseal(payload: bytes) -> bytes:
    return bytes(byte ^ 0x5A for byte in payload[:-20])


def replaced_frame(tmp_path: Path, frame: bytes, payload: bytes, link_type: int = 1) -> bytes:
    raw = only_packet(tmp_path, pcap(frame, link_type=link_type)).with_payload(payload)
    captured, original = struct.unpack("<II", raw[8:16])
    assert captured == original == len(raw) - 16
    return raw[16:]


def rebuilt(network: Any) -> bytes:
    """The packet as scapy writes it with all lengths and checksums computed afresh."""
    network = network.copy()
    ip, udp = network.getlayer(IP) or network.getlayer(IPv6), network.getlayer(UDP)
    if isinstance(ip, IP):
        del ip.len, ip.chksum
    else:
        del ip.plen
    del udp.len, udp.chksum
    return bytes(network)


def parsed(frame: bytes, version: int) -> Any:
    return (IP if version == 4 else IPv6)(frame)


# Every link and network layer


@pytest.mark.parametrize(("link", "network"), cases())
def test_a_datagram_is_found_whatever_is_around_it(tmp_path: Path, link: str, network: str) -> None:
    link_type, wrap = LINKS[link]
    data = pcap(wrap(NETWORKS[network](b"payload")), link_type=link_type)
    udp = only_packet(tmp_path, data).udp
    assert udp is not None
    addresses = V4 if network.startswith("v4") else V6
    assert udp.payload == b"payload"
    assert (udp.source, udp.source_port) == (addresses["src"], 50001)
    assert (udp.destination, udp.destination_port) == (addresses["dst"], 50002)


@pytest.mark.parametrize(("link", "network"), cases())
def test_a_replaced_datagram_is_what_scapy_would_have_built(tmp_path: Path, link: str, network: str) -> None:
    link_type, wrap = LINKS[link]
    for old, new in ((b"payload", b"longer payload"), (b"a longer payload", b"odd"), (b"xy", b"")):
        frame = wrap(NETWORKS[network](old))
        assert replaced_frame(tmp_path, frame, new, link_type) == wrap(NETWORKS[network](new))


@pytest.mark.parametrize("network", NETWORKS)
def test_checksums_are_right_at_every_pair_of_lengths(tmp_path: Path, network: str) -> None:
    rng = random.Random(1624)
    for old_len in (*range(6), 255, 256, 1199, 1200):
        for new_len in (*range(6), 20, 255, 256, 1400, 1401):
            old, new = rng.randbytes(old_len), rng.randbytes(new_len)
            frame = bytes(NETWORKS[network](old))
            result = replaced_frame(tmp_path, frame, new, link_type=101)
            assert result == rebuilt(parsed(result, frame[0] >> 4))
            assert result == bytes(NETWORKS[network](new))


# Checksums that are wrong, absent or zero


def with_checksums(network: Any, udp: int, ip: int | None = None) -> bytes:
    network[UDP].chksum = udp
    if ip is not None:
        network[IP].chksum = ip
    return bytes(network)


def right_checksums(network: Any) -> tuple[int, int]:
    whole = parsed(rebuilt(network), bytes(network)[0] >> 4)
    return whole[UDP].chksum, whole[IP].chksum if IP in whole else 0


@pytest.mark.parametrize("ip_checksum", [0, 1, 0x7FFF, 0xFFFE, 0xFFFF])
@pytest.mark.parametrize("udp_checksum", [0, 1, 0x1234, 0xFFFE, 0xFFFF])
@pytest.mark.parametrize("size", [7, 8])
def test_a_wrong_checksum_is_as_wrong_as_before_and_comes_back(
    tmp_path: Path, size: int, udp_checksum: int, ip_checksum: int
) -> None:
    network = NETWORKS["v4"](b"\xa5" * size)
    data = pcap(with_checksums(network, udp_checksum, ip_checksum), link_type=101)
    sealed = rewrite(tmp_path, data, seal)
    assert rewrite(tmp_path, sealed, unseal) == data

    before, after = IP(data[40:]), IP(sealed[40:])
    (udp_before, ip_before), (udp_after, ip_after) = map(right_checksums, (before, after))
    if udp_checksum:
        error = (udp_checksum - udp_before) % 0xFFFF
        assert (after[UDP].chksum - udp_after) % 0xFFFF == error
    if ip_checksum != 0xFFFF:
        assert (after.chksum - ip_after) % 0xFFFF == (ip_checksum - ip_before) % 0xFFFF


@pytest.mark.parametrize("network", ["v4", "v6"])
def test_no_udp_checksum_stays_none(tmp_path: Path, network: str) -> None:
    frame = with_checksums(NETWORKS[network](b"payload"), udp=0)
    result = parsed(replaced_frame(tmp_path, frame, b"another", 101), frame[0] >> 4)
    assert result[UDP].chksum == 0


@pytest.mark.parametrize("network", ["v4", "v6"])
def test_a_udp_checksum_that_comes_out_as_zero_is_written_ffff(tmp_path: Path, network: str) -> None:
    # With its checksum as payload, a datagram sums up to 0xFFFF, so that the checksum becomes 0.
    zeros = parsed(bytes(NETWORKS[network](bytes(2))), 4 if network == "v4" else 6)
    payload = zeros[UDP].chksum.to_bytes(2)
    result = replaced_frame(tmp_path, bytes(NETWORKS[network](b"other")), payload, 101)
    assert parsed(result, result[0] >> 4)[UDP].chksum == 0xFFFF


# Bytes around the datagram


def test_ethernet_padding_stays_behind_the_packet(tmp_path: Path) -> None:
    frame = bytes(ETHERNET / NETWORKS["v4"](b"hi")) + b"pad not of zeros"
    sealed = replaced_frame(tmp_path, frame, b"a payload that is longer")
    assert sealed == bytes(ETHERNET / NETWORKS["v4"](b"a payload that is longer")) + frame[-16:]
    assert replaced_frame(tmp_path, sealed, b"hi") == frame


def test_ip_bytes_behind_a_shorter_udp_length_stay(tmp_path: Path) -> None:
    # The surplus area of RFC 9868, section 5.
    whole = NETWORKS["v4"](b"payload" + b"surplus")
    whole[UDP].len = 8 + 7
    record = only_packet(tmp_path, pcap(bytes(whole), link_type=101))
    assert record.udp is not None
    assert record.udp.payload == b"payload"
    result = IP(record.with_payload(b"changed!!")[16:])
    assert (result.len, result[UDP].len) == (whole_length(whole) + 2, 8 + 9)
    assert bytes(result)[28:] == b"changed!!surplus"


def whole_length(network: Any) -> int:
    return len(bytes(network))


# What is passed through


def damaged(network: Any, **fields: int) -> bytes:
    for name, value in fields.items():
        layer, field = name.split("_")
        setattr(network[{"ip": IP, "ip6": IPv6, "udp": UDP}[layer]], field, value)
    return bytes(network)


UDP_V4 = NETWORKS["v4"]
UNTOUCHED: dict[str, bytes] = {
    "first fragment": bytes(IP(**V4, flags="MF") / UDP(**PORTS) / Raw(bytes(32))),
    "last fragment": bytes(IP(**V4, frag=4, proto=17) / Raw(bytes(32))),
    "IPv6 fragment": bytes(IPv6(**V6) / IPv6ExtHdrFragment(m=1) / UDP(**PORTS) / Raw(bytes(32))),
    "IPv6 atomic fragment": bytes(IPv6(**V6) / IPv6ExtHdrFragment() / UDP(**PORTS) / Raw(b"abc")),
    "IPv6 AH": bytes(IPv6(**V6) / AH(icv=bytes(12), payloadlen=4, nh=17) / UDP() / Raw(b"abc")),
    "IPv6 ESP": bytes(IPv6(**V6) / ESP(data=bytes(32))),
    "TCP": bytes(IP(**V4) / TCP() / Raw(b"abc")),
    "ICMP error that quotes UDP": bytes(IP(**V4) / ICMP(type=3) / UDP_V4(b"quoted")),
    "IP in IP": bytes(IP(**V4) / UDP_V4(b"inner")),
    "IPv4 total length past the end": damaged(UDP_V4(b"abc"), ip_len=32),
    "IPv4 total length 0 (offload)": damaged(UDP_V4(b"abc"), ip_len=0),
    "IPv4 total length in the UDP header": damaged(UDP_V4(b"abc"), ip_len=27),
    "IPv4 header length 4": damaged(UDP_V4(b"abc"), ip_ihl=4),
    "IPv4 header length past the end": damaged(UDP_V4(b""), ip_ihl=15),
    "UDP length past the IP packet": damaged(UDP_V4(b"abc"), udp_len=12),
    "UDP length into the padding": damaged(UDP_V4(b"abc"), udp_len=12) + b"padding",
    "UDP length 7": damaged(UDP_V4(b"abc"), udp_len=7),
    "UDP length 0": damaged(UDP_V4(b"abc"), udp_len=0),
    "IPv6 payload length past the end": damaged(NETWORKS["v6"](b"abc"), ip6_plen=12),
    "IPv6 payload length 0 (jumbo)": damaged(NETWORKS["v6"](b"abc"), ip6_plen=0),
    "IP version 5": damaged(UDP_V4(b"abc"), ip_version=5),
    "nothing": b"",
    "one byte": b"\x45",
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_anything_else_is_passed_through(tmp_path: Path, name: str) -> None:
    data = pcap(UNTOUCHED[name], link_type=101)
    record = only_packet(tmp_path, data)
    assert (record.udp, record.cut) == (None, None)
    assert rewrite(tmp_path, data, seal) == data
    with pytest.raises(ValueError, match="packet 1 has no whole UDP datagram"):
        record.with_payload(b"x")


@pytest.mark.parametrize(
    ("link_type", "frame"),
    [
        (1, bytes(ETHERNET / ARP())),
        (1, bytes(ETHERNET / Dot1Q())[:16]),
        (0, b"\7\0\0\0" + bytes(UDP_V4(b"abc"))),
        (147, bytes(UDP_V4(b"abc"))),
    ],
    ids=["ARP", "VLAN tag cut short", "OSI over loopback", "private link type"],
)
def test_links_that_carry_no_ip_are_passed_through(tmp_path: Path, link_type: int, frame: bytes) -> None:
    assert only_packet(tmp_path, pcap(frame, link_type=link_type)).udp is None


@pytest.mark.parametrize("network", NETWORKS)
def test_a_datagram_cut_by_the_snap_length_is_left_alone_and_named(tmp_path: Path, network: str) -> None:
    whole = bytes(ETHERNET / NETWORKS[network](b"a payload"))
    for size in range(14, len(whole)):
        record = only_packet(tmp_path, pcap(whole[:size], original=len(whole)))
        assert record.udp is None
        assert record.cut == (f"packet 1 was cut by the capture's snap length: {size} of {len(whole)} bytes")


def test_a_cut_that_only_takes_padding_does_no_harm(tmp_path: Path) -> None:
    frame = bytes(ETHERNET / UDP_V4(b"whole")) + b"padd"
    data = pcap(frame, original=len(frame) + 3)
    sealed = rewrite(tmp_path, data, seal)
    assert struct.unpack_from("<II", sealed, 32) == (len(frame) + 20, len(frame) + 23)
    assert rewrite(tmp_path, sealed, unseal) == data


@pytest.mark.parametrize("name", ["TCP", "first fragment", "last fragment", "IPv6 fragment"])
def test_a_cut_of_something_else_is_not_reported(tmp_path: Path, name: str) -> None:
    frame = UNTOUCHED[name]
    data = pcap(frame[:-1], original=len(frame), link_type=101)
    record = only_packet(tmp_path, data)
    assert (record.udp, record.cut) == (None, None)


def test_a_simple_packet_block_ends_at_the_snap_length(tmp_path: Path) -> None:
    frame = bytes(UDP_V4(b"a payload"))
    body = struct.pack("<I", len(frame)) + frame[:30]
    data = section("<") + interface("<", 101, snap_length=30) + block("<", 3, body)
    cut = only_packet(tmp_path, data).cut
    assert cut == "packet 1 was cut by the capture's snap length: 30 of 37 bytes"


@pytest.mark.parametrize("original", [0, 10, RECORD_LIMIT + 1, 0xFFFFFFFF])
def test_an_impossible_original_length_leaves_the_packet_alone(tmp_path: Path, original: int) -> None:
    data = pcap(bytes(ETHERNET / UDP_V4(b"abc")), original=original)
    assert rewrite(tmp_path, data, seal) == data


@pytest.mark.parametrize(
    ("network", "longest", "sentence"),
    [
        ("v4", 65507, "packet 1: IPv4 total length 65536 is over 65535"),
        ("v4-options", 65495, "packet 1: IPv4 total length 65536 is over 65535"),
        ("v6", 65527, "packet 1: IPv6 payload length 65536 is over 65535"),
    ],
)
def test_a_payload_too_long_for_its_packet_is_refused(
    tmp_path: Path, network: str, longest: int, sentence: str
) -> None:
    record = only_packet(tmp_path, pcap(bytes(NETWORKS[network](b"abc")), link_type=101))
    raw = record.with_payload(bytes(longest))
    assert raw[16:] == bytes(NETWORKS[network](bytes(longest)))
    with pytest.raises(ValueError, match=sentence):
        record.with_payload(bytes(longest + 1))


# Files


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [MICRO, NANO])
def test_pcap_keeps_header_and_timestamps(tmp_path: Path, order: str, magic: int) -> None:
    def capture(*payloads: bytes) -> bytes:
        frames = [bytes(ETHERNET / UDP_V4(payload)) for payload in payloads]
        return pcap(*frames, bytes(ETHERNET / ARP()), order=order, magic=magic, snap_length=1500)

    data = capture(b"first", b"second", b"")
    sealed = rewrite(tmp_path, data, seal)
    assert sealed == capture(seal(b"first"), seal(b"second"), seal(b""))
    assert rewrite(tmp_path, sealed, unseal) == data
    packets = rdpcap(str(write_file(tmp_path, sealed)))
    assert [bytes(p[Raw]) for p in packets if Raw in p] == [
        seal(b"first"),
        seal(b"second"),
        seal(b""),
    ]


def pcapng(order: str, change: Rewrite = bytes) -> bytes:
    """Two sections of different byte orders, three interfaces, every kind of packet block."""
    other = "<" if order == ">" else ">"

    def udp(payload: bytes) -> Any:
        return UDP_V4(change(payload))

    return b"".join(
        (
            section(order),
            interface(order, 1),
            enhanced(order, 0, bytes(ETHERNET / udp(b"one"))),
            furniture(order),
            interface(order, 276, resolution=9),
            enhanced(order, 1, bytes(CookedLinuxV2(proto=0x0800) / udp(b"two"))),
            enhanced(order, 1, bytes(ETHERNET)),  # too short for SLL2
            obsolete(order, 0, bytes(ETHERNET / udp(b"three"))),
            simple(order, bytes(ETHERNET / udp(b"four!"))),
            section(other),
            furniture(other),
            interface(other, 101, resolution=0x8A),
            enhanced(other, 0, bytes(udp(b"five!!"))),
            furniture(other),
        )
    )


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_changes_nothing_but_the_packets(tmp_path: Path, order: str) -> None:
    data = pcapng(order)
    assert rewrite(tmp_path, data, None) == data
    sealed = rewrite(tmp_path, data, seal)
    assert sealed == pcapng(order, seal)
    assert rewrite(tmp_path, sealed, unseal) == data


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_packets_are_numbered_over_all_sections(tmp_path: Path, order: str) -> None:
    numbered = [r for r in records(tmp_path, pcapng(order)) if r.number is not None]
    payloads = [r.udp.payload if r.udp else None for r in numbered]
    assert [r.number for r in numbered] == list(range(1, 16))
    others = [None] * 3  # Wireshark numbers two custom blocks and a journal block as well
    first = [b"one", *others, b"two", None, b"three", b"four!"]
    assert payloads == [*first, *others, b"five!!", *others]


@pytest.mark.parametrize("growth", [20, 1, 3])
def test_pcapng_padding_of_any_content_survives_where_it_can(tmp_path: Path, growth: int) -> None:
    head = section("<") + interface("<", 101)
    for size in range(4):
        frame = bytes(UDP_V4(bytes(size)))
        data = head + enhanced("<", 0, frame, pad=b"\xee", original=len(frame) + 9)
        record = only_packet(tmp_path, data)
        grown = head + record.with_payload(bytes(size + growth))
        back = only_packet(tmp_path, grown).with_payload(bytes(size))
        assert len(back) == len(record.raw)
        assert growth % 4 or head + back == data


def test_a_simple_packet_block_is_kept_within_its_snap_length(tmp_path: Path) -> None:
    frame = bytes(UDP_V4(b"abc"))
    data = section("<") + interface("<", 101, snap_length=len(frame) + 19) + simple("<", frame)
    record = only_packet(tmp_path, data)
    assert len(record.with_payload(bytes(22))) > len(record.raw)
    with pytest.raises(ValueError, match=r"packet 1: 51 bytes are over the snap length 50"):
        record.with_payload(bytes(23))


def test_position_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    for data in (pcap(b"a", b"bc"), pcapng("<")):
        with open_capture(write_file(tmp_path, data)) as capture:
            assert capture.size == len(data)
            read = 0
            for record in capture:
                read += len(record.raw)
                assert record.position == read
            assert read == len(data)


# Real captures


def real_capture(name: str) -> Path:
    path = VECTORS / "rtp" / "str0m" / name
    if not path.exists():
        pytest.skip(f"{path} is absent; set DVCRYPTO_VECTORS")
    return path


@pytest.mark.parametrize("name", REAL_CAPTURES)
def test_a_real_capture_is_the_same_after_the_round_trip(tmp_path: Path, name: str) -> None:
    data = real_capture(name).read_bytes()
    assert rewrite(tmp_path, data, None) == data
    sealed = rewrite(tmp_path, data, seal)
    packets = [r for r in records(tmp_path, sealed) if r.number is not None]
    assert len(sealed) == len(data) + 20 * sum(r.udp is not None for r in packets)
    assert len(packets) == len(rdpcap(str(real_capture(name)))) > 100
    assert rewrite(tmp_path, sealed, unseal) == data


def tshark(path: Path, *arguments: str) -> str:
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed (apt-get install tshark)")
    checks = ("-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    command = [program, "-n", "-r", str(path), *checks, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


FIELDS = ("frame.number", "frame.time_epoch", "udp.length", "udp.checksum.status")


@pytest.mark.parametrize("name", [*REAL_CAPTURES, "<", ">"])
def test_tshark_finds_the_same_packets_with_right_checksums(tmp_path: Path, name: str) -> None:
    data = pcapng(name) if len(name) == 1 else real_capture(name).read_bytes()
    before = write_file(tmp_path, data, "before")
    after = write_file(tmp_path, rewrite(tmp_path, data, seal), "after")
    arguments = ["-T", "fields", *(part for field in FIELDS for part in ("-e", field))]
    old, new = (tshark(path, *arguments).splitlines() for path in (before, after))
    assert len(old) == len(new) > 0
    for old_line, new_line in zip(old, new, strict=True):
        (*identity, old_length, old_status), (*same, length, status) = (
            line.split("\t") for line in (old_line, new_line)
        )
        assert (identity, old_status) == (same, status)
        assert not length or int(length) == int(old_length) + 20
        assert status in ("", "1")  # 1: good
    numbers = [line.split("\t")[0] for line in new if line.split("\t")[2]]
    assert numbers == [str(r.number) for r in records(tmp_path, after.read_bytes()) if r.udp]


# Hostile files


def failure(tmp_path: Path, data: bytes) -> tuple[int, str]:
    """How many packets came before the error, and its sentence without the folder."""
    path, delivered = write_file(tmp_path, data), list[Record]()
    with pytest.raises(CaptureError) as caught:
        deliver(path, delivered)
    count = sum(record.number is not None for record in delivered)
    return count, str(caught.value).replace(str(path), "in.pcap")


def deliver(path: Path, to: list[Record]) -> None:
    with open_capture(path) as capture:
        to.extend(capture)


HEAD, IDB = section("<"), interface("<", 1)
HUGE = 0xFFFFFFFC
HOSTILE: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 0, "in.pcap is neither pcap nor pcapng: it starts with ''"),
    "text": (b"hello", 0, "in.pcap is neither pcap nor pcapng: it starts with '68656c6c'"),
    "half a file header": (
        pcap()[:10], 0,
        "in.pcap, at byte 0, after packet 0: the file ends early: 24 bytes expected, 10 there",
    ),
    "pcap version 3": (
        pcap()[:4] + b"\3\0\4\0" + pcap()[8:], 0,
        "in.pcap, at byte 0, after packet 0: pcap version 3.4; 2 is the only one read",
    ),
    "half a record header": (
        pcap(b"abc") + bytes(7), 1,
        "in.pcap, at byte 43, after packet 1: the file ends early: 16 bytes expected, 7 there",
    ),
    "half a packet": (
        pcap(b"abc", b"defg")[:-1], 1,
        "in.pcap, at byte 43, after packet 1: the file ends early: 4 bytes expected, 3 there",
    ),
    "no packet": (
        pcap(b"abc")[:-3], 0,
        "in.pcap, at byte 24, after packet 0: the file ends early: 3 bytes expected, 0 there",
    ),
    "packet of 4 GB": (
        pcap() + struct.pack("<IIII", 0, 0, HUGE, HUGE), 0,
        "in.pcap, at byte 24, after packet 0: a length of 4294967292 bytes; "
        "the limit is 16777216",
    ),
    "block of 4 GB": (
        HEAD + IDB + struct.pack("<III", 6, HUGE, 0), 0,
        "in.pcap, at byte 88, after packet 0: a length of 4294967280 bytes; "
        "the limit is 16777216",
    ),
    "section of 4 GB": (
        HEAD[:4] + struct.pack("<I", HUGE) + HEAD[8:], 0,
        "in.pcap, at byte 0, after packet 0: a length of 4294967280 bytes; "
        "the limit is 16777216",
    ),
    "section without a byte order": (
        HEAD[:8] + bytes(4) + HEAD[12:], 0,
        "in.pcap, at byte 0, after packet 0: a section with the byte-order magic '00000000'",
    ),
    "block of length 8": (
        HEAD + struct.pack("<III", 5, 8, 8), 0,
        "in.pcap, at byte 56, after packet 0: a block of type 5 and length 8; "
        "it must be at least 12 and a multiple of 4",
    ),
    "block of length 13": (
        HEAD + struct.pack("<III", 5, 13, 13) + b"x", 0,
        "in.pcap, at byte 56, after packet 0: a block of type 5 and length 13; "
        "it must be at least 12 and a multiple of 4",
    ),
    "block that ends otherwise": (
        HEAD + struct.pack("<III", 5, 12, 16), 0,
        "in.pcap, at byte 56, after packet 0: a block of length 12 that ends with the length 16",
    ),
    "unknown interface": (
        HEAD + IDB + enhanced("<", 0, b"abc") + enhanced("<", 1, b"abc"), 1,
        "in.pcap, at byte 156, after packet 1: interface 1; its section describes 1",
    ),
    "interface of another section": (
        HEAD + IDB + HEAD + simple("<", b"abc"), 0,
        "in.pcap, at byte 144, after packet 0: interface 0; its section describes 0",
    ),
    "packet longer than its block": (
        HEAD + IDB + block("<", 6, struct.pack("<IIIII", 0, 0, 0, 9, 9) + bytes(8)), 0,
        "in.pcap, at byte 88, after packet 0: 9 bytes in a block with room for 8",
    ),
    "simple packet longer than its block": (
        HEAD + IDB + block("<", 3, struct.pack("<I", 9) + bytes(8)), 0,
        "in.pcap, at byte 88, after packet 0: 9 bytes in a block with room for 8",
    ),
    "half a block": (
        HEAD + IDB + enhanced("<", 0, b"abc") + enhanced("<", 0, b"abc")[:-1], 1,
        "in.pcap, at byte 156, after packet 1: the file ends early: 56 bytes expected, 55 there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_file_is_an_error_with_place_value_and_limit(tmp_path: Path, name: str) -> None:
    data, count, sentence = HOSTILE[name]
    assert failure(tmp_path, data) == (count, sentence)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_capture(tmp_path / "absent.pcap")


def test_a_file_is_closed_when_it_is_no_capture(tmp_path: Path) -> None:
    path = write_file(tmp_path, b"text")
    with pytest.raises(CaptureError):  # an unclosed file is a ResourceWarning, here an error
        open_capture(path)


def test_memory_stays_small_whatever_the_file_says(tmp_path: Path) -> None:
    frame = bytes(ETHERNET / UDP_V4(bytes(1200)))
    path = write_file(tmp_path, pcap(*[frame] * 2000))
    claimed = write_file(tmp_path, HOSTILE["block of 4 GB"][0], "claimed")
    tracemalloc.start()
    try:
        with open_capture(path) as capture:
            assert sum(record.udp is not None for record in capture) == 2000
        with pytest.raises(CaptureError):
            deliver(claimed, [])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 < path.stat().st_size
    finally:
        tracemalloc.stop()


def test_a_long_chain_of_extension_headers_costs_little(tmp_path: Path) -> None:
    # dpkt copies the rest of the packet at every header; beyond 64 KiB that would be quadratic.
    chain = b"\x3c\0\1\4\0\0\0\0" * 200_000
    frame = b"\x60" + bytes(3) + b"\0\0\x3c\x40" + bytes(32) + chain
    start = time.process_time()
    assert only_packet(tmp_path, pcap(frame, link_type=101)).udp is None
    assert time.process_time() - start < 4  # seconds: about 0.1, and 15 without the limit


class Damage:
    """Random cuts and byte changes, the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, data: bytes) -> bytes:
        rng, result = self._random, bytearray(data)
        for _ in range(rng.choice((0, 1, 1, 2, 8, 64))):
            start = rng.choice((0, 0, rng.randrange(len(result))))
            at = min(start + rng.randrange(200), len(result) - 1)
            result[at] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        if rng.random() < 0.5:
            del result[rng.randrange(len(result)) :]
        return bytes(result)


def survive(path: Path) -> None:
    """Read and rewrite a damaged file; only the errors that are documented may come out."""
    out = CaptureWriter(io.BytesIO())
    try:
        with open_capture(path) as capture:
            use(capture, out)
    except CaptureError:
        pass


def use(capture: Capture, out: CaptureWriter) -> None:
    for record in capture:
        out.write(record)
        if record.udp is not None:
            out.write(record, payload=seal(record.udp.payload))
            assert restored(record) == record.raw


def restored(record: Record) -> bytes:
    """The record after its payload was replaced in place twice."""
    assert record.udp is not None
    payload = record.udp.payload
    other = bytes(byte ^ 0xFF for byte in payload)
    changed = Record(
        raw=record.with_payload(other),
        position=record.position,
        number=record.number,
        udp=type(record.udp)(other, "", 0, "", 0),
        _frame=record._frame,
        _headers=record._headers,
    )
    return changed.with_payload(payload)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_capture_error_comes_out_of_a_damaged_file(tmp_path: Path, seed: int) -> None:
    frames = [wrap(NETWORKS[n](b"payload")) for _, wrap in LINKS.values() for n in NETWORKS]
    sources = [pcapng("<"), pcapng(">"), pcap(*frames), pcap(*UNTOUCHED.values(), link_type=101)]
    sources += [pcap(*(bytes(build(b"abc")) for build in NETWORKS.values()), link_type=101)] * 2
    damage = Damage(seed)
    for case in range(400):
        survive(write_file(tmp_path, damage.of(sources[case % len(sources)])))


@pytest.mark.parametrize("name", REAL_CAPTURES)
def test_nothing_but_capture_error_comes_out_of_a_damaged_real_file(tmp_path: Path, name: str) -> None:
    data = real_capture(name).read_bytes()
    damage = Damage(264)
    for _ in range(500):
        survive(write_file(tmp_path, damage.of(data[: 24 + 16 * 1024])))
