"""Every packet of the captures, in both modes and on every engine, has the bytes an independent construction gives it.

The captures are those of aiortc, WebRTC's fuzzers and str0m among the third-party vectors, and the project's own
demo.pcap. Other parsers judge the packets: dpkt the fixed RTP header and the CSRCs, oracle.py the rest.
"""

import itertools
import json
import os
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import dpkt
import oracle
import pytest
from conftest import ENGINES
from engine_worker import BURST_SIZES

import dvcrypto
from dvcrypto import Mode, Opener, Sealer, Status

KEY = bytes(range(32))  # of RFC 7714, section 16.2
FIRST_NONCE = 0x8000_0000
WAYS = ["singly", *(f"in bursts of {size or 'all'}" for size in BURST_SIZES)]
RUNS = [(mode, engine) for mode, engines in ENGINES.items() for engine in (*engines, "the dispatch")]

KEEP_ALIVE_LEN, DISCOVERY_LEN = 8, 74


# The packets


def udp_payloads(capture: Path) -> list[bytes]:
    """What the UDP datagrams of a capture carry, by dpkt."""
    with capture.open("rb") as file:
        frames = [dpkt.ethernet.Ethernet(frame) for _, frame in dpkt.pcap.UniversalReader(file)]
    datagrams = [frame.data.data for frame in frames if isinstance(frame.data, dpkt.ip.IP | dpkt.ip6.IP6)]
    return [bytes(datagram.data) for datagram in datagrams if isinstance(datagram, dpkt.udp.UDP)]


@cache
def third_party(folder: Path) -> dict[str, list[bytes]]:
    """The packets of others, by where they come from."""
    return {
        "aiortc": [path.read_bytes() for path in sorted((folder / "aiortc").glob("*.bin"))],
        "webrtc_corpus": [path.read_bytes() for path in sorted((folder / "webrtc_corpus").glob("rtp-*"))],
        "h264.pcap": udp_payloads(folder / "str0m" / "h264.pcap"),
        "vp8.pcap": udp_payloads(folder / "str0m" / "vp8.pcap"),
    }


@cache
def demo() -> list[bytes]:
    """The RTP and RTCP of the project's own capture, without what else shares the socket."""
    return [
        packet
        for packet in udp_payloads(Path(dvcrypto.__file__).parent / "cli" / "demo.pcap")
        if len(packet) not in {KEEP_ALIVE_LEN, DISCOVERY_LEN} or packet[0] >> 6 == 2
    ]


@pytest.fixture(scope="module", params=["third-party captures", "demo.pcap"])
def packets(request: pytest.FixtureRequest) -> list[bytes]:
    if request.param == "demo.pcap":
        return demo()
    folder: Path = request.getfixturevalue("vectors")
    return list(itertools.chain.from_iterable(third_party(folder / "rtp").values()))


def test_the_third_party_captures_are_read_whole(vectors: Path) -> None:
    found = third_party(vectors / "rtp")
    assert {source: len(packets) for source, packets in found.items()} == {
        "aiortc": 8,
        "webrtc_corpus": 5,
        "h264.pcap": 298,
        "vp8.pcap": 104,
    }


def test_the_captures_hold_every_kind_of_packet(packets: list[bytes]) -> None:
    """Bare headers, an extension, padding with it, CSRCs on top of both, and RTCP."""
    kinds = {(bool(p[0] & 0x0F), bool(p[0] & 0x10), bool(p[0] & 0x20)) for p in packets if not oracle.is_rtcp(p)}
    assert kinds >= {(False, False, False), (False, True, False), (False, True, True), (True, True, True)}
    assert len(packets) >= 300
    assert any(oracle.is_rtcp(packet) for packet in packets)


# What an independent reading says


def independent_header(packet: bytes) -> list[Any]:
    """The fields of RtpHeader, or of RtcpHeader, in their order."""
    if oracle.is_rtcp(packet):
        first, packet_type, length, ssrc = struct.unpack("!BBHI", packet[:8])
        return [first >> 6, bool(first & 0b10_0000), first & 0b1_1111, packet_type, length, ssrc]
    rtp = dpkt.rtp.RTP(packet)
    csrcs = [int.from_bytes(rtp.csrc[start : start + 4], "big") for start in range(0, 4 * rtp.cc, 4)]
    return [rtp.version, bool(rtp.p), bool(rtp.m), rtp.pt, rtp.seq, rtp.ts, rtp.ssrc, csrcs]


def independent_description(packet: bytes, suffix: bytes) -> dict[str, Any]:
    """What engine_worker.described must tell of this packet."""
    parts = oracle.parse(packet)
    extension = elements = None
    if parts.profile is not None:
        extension = [parts.profile, parts.extension.hex()]
        found = oracle.elements(parts.profile, parts.extension)
        elements = {str(number): data.hex() for number, data in found.items()}
    return {
        "plain": packet.hex(),
        "nonce": suffix.hex(),
        "is_rtcp": oracle.is_rtcp(packet),
        "header": independent_header(packet),
        "extension": extension,
        "elements": elements,
        "payload": parts.payload.hex(),
    }


def suffixes(count: int) -> list[bytes]:
    """What the official client's counter writes: little-endian, from 0x80000000."""
    return [(FIRST_NONCE + number).to_bytes(4, "little") for number in range(count)]


# What dvcrypto does


def unavailable(engine: str) -> str | None:
    """Why an engine cannot run here."""
    known = {each.name: each for of_mode in dvcrypto.engines().values() for each in of_mode}
    if engine not in known or known[engine].available:
        return None
    return f"{engine} cannot run on this machine: {known[engine].reason}"


@pytest.fixture(scope="module", params=RUNS, ids=[f"{mode}-{engine}" for mode, engine in RUNS])
def run(request: pytest.FixtureRequest, packets: list[bytes]) -> dict[str, Any]:
    """What a process with this engine, and no other for its mode, made of the packets."""
    mode, engine = request.param
    if reason := unavailable(engine):
        pytest.skip(reason)
    environment = {name: value for name, value in os.environ.items() if name != "DVCRYPTO_ENGINE"}
    if engine != "the dispatch":
        environment["DVCRYPTO_ENGINE"] = engine
    asked = {
        "mode": mode,
        "key": KEY.hex(),
        "packets": [packet.hex() for packet in packets],
        "header_lens": [oracle.clear_header_len(packet) for packet in packets],
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("engine_worker.py"))],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return {"mode": mode, "engine": engine, **told}


def test_the_forced_engine_alone_served(run: dict[str, Any]) -> None:
    if run["engine"] == "the dispatch":
        assert all(any(name in served for name in ENGINES[run["mode"]]) for served in run["engines"])
    else:
        assert run["engines"] == [run["engine"], run["engine"]]


def test_sealed_bytes_equal_the_independent_construction(run: dict[str, Any], packets: list[bytes]) -> None:
    expected = [
        oracle.seal(run["mode"], KEY, packet, suffix).hex()
        for packet, suffix in zip(packets, suffixes(len(packets)), strict=True)
    ]
    assert list(run["sealed"]) == WAYS
    for way in WAYS:
        assert run["sealed"][way] == expected, way


def test_opened_packets_equal_the_plain_ones_and_what_other_parsers_say(
    run: dict[str, Any], packets: list[bytes]
) -> None:
    expected = [
        independent_description(packet, suffix) for packet, suffix in zip(packets, suffixes(len(packets)), strict=True)
    ]
    assert list(run["opened"]) == WAYS
    for way in WAYS:
        assert run["opened"][way] == expected, way


def test_a_packet_is_called_empty_where_nothing_but_padding_is_in_it(run: dict[str, Any], packets: list[bytes]) -> None:
    expected = ["ok" if oracle.is_rtcp(packet) or oracle.parse(packet).payload else "empty" for packet in packets]
    assert list(run["statuses"]) == WAYS[1:]
    for way in WAYS[1:]:
        assert run["statuses"][way] == expected, way


# Packets that are no RTP

# rtp-3 of the corpus of WebRTC's fuzzers (test/fuzzers/corpora): padding, an extension and 2 CSRCs in the header, 4
# bytes of extension, "payload", 8 bytes of padding. All of that corpus is well-formed; what is not is made of it here.
CORPUS_3 = bytes.fromhex("b26400586543127812345678 34567890 32435465 bede0001 120056ce 7061796c6f6164 70616464696e6708")
GOOD = CORPUS_3[:12].replace(b"\xb2", b"\x80") + b"payload"


def with_byte(place: int, value: int) -> bytes:
    changed = bytearray(CORPUS_3)
    changed[place] = value
    return bytes(changed)


WRONG = {
    "version 0": (with_byte(0, 0x32), "version 0", "RTP version 0; it must be 2"),
    "version 1": (with_byte(0, 0x72), "version 1", "RTP version 1; it must be 2"),
    "version 3": (with_byte(0, 0xF2), "version 3", "RTP version 3; it must be 2"),
    "15 CSRCs in 43 bytes": (with_byte(0, 0xBF), "the header runs past the end", "43 bytes.*76"),
    "an extension of 20 bytes in 19": (with_byte(23, 5), "the extension runs past the end", "20.*19"),
    "an extension of 65,535 words": (CORPUS_3[:22] + b"\xff\xff" + CORPUS_3[24:], "the extension runs", "262140.*19"),
    "a padding count of 0": (with_byte(42, 0), "padding without a count", "0.*1"),
    "16 bytes of padding where 15 are": (with_byte(42, 16), "the padding is longer", "16.*15"),
    "255 bytes of padding where 15 are": (with_byte(42, 255), "the padding is longer", "255.*15"),
    "padding without a byte for its count": (CORPUS_3[:28], "padding without a count", "padding"),
    "cut in the extension": (CORPUS_3[:27], "the extension runs past the end", "4.*3"),
    "cut in the extension's preamble": (CORPUS_3[:23], "the header runs past the end", "23 bytes.*24"),
    "cut in the fixed header": (CORPUS_3[:11], "the header runs past the end", "11 bytes.*24"),
    "shorter than RTCP's header": (CORPUS_3[:7], "shorter than any header", "7 bytes.*8"),
}
MODES = pytest.mark.parametrize("mode", list(Mode))


def test_the_corpus_of_webrtc_is_well_formed_and_none_of_it_refused(vectors: Path) -> None:
    """By an independent reading: a bare header, three extensions with nothing behind them, and one with it all."""
    corpus = third_party(vectors / "rtp")["webrtc_corpus"]
    assert corpus[3] == CORPUS_3
    parts = [oracle.parse(packet) for packet in corpus]
    assert [(len(p.header), len(p.extension), p.payload, len(p.padding)) for p in parts] == [
        (12, 0, b"", 0),
        (16, 4, b"", 0),
        (16, 8, b"", 0),
        (24, 4, b"payload", 8),
        (16, 4, b"", 0),
    ]
    for packet, part in zip(corpus, parts, strict=True):
        sealed = Sealer(Mode.AES256_GCM, KEY).seal(part.header, packet[len(part.header) :])
        assert sealed == oracle.seal(oracle.GCM, KEY, packet, suffixes(1)[0])


@MODES
@pytest.mark.parametrize("name", WRONG)
def test_malformed_rtp_is_refused_by_name_and_uses_no_nonce(mode: Mode, name: str) -> None:
    packet, reason, told = WRONG[name]
    with pytest.raises(ValueError, match=reason):
        oracle.parse(packet)
    header_len = oracle.clear_header_len(packet)
    sealer = Sealer(mode, KEY)
    with pytest.raises(ValueError, match=told):
        sealer.seal(packet[:header_len], packet[header_len:])
    with pytest.raises(ValueError, match=rf"packets\[2\].*{told}"):
        sealer.seal_burst([GOOD, GOOD, packet, GOOD])
    assert sealer.seal_burst([GOOD]).tolist() == [oracle.seal(mode, KEY, GOOD, suffixes(1)[0])]


@MODES
@pytest.mark.parametrize("name", WRONG)
def test_malformed_rtp_under_a_right_tag_is_refused_when_opened(mode: Mode, name: str) -> None:
    """A peer that holds the key may still send what is no RTP."""
    packet, reason, _ = WRONG[name]
    header_len = min(oracle.clear_header_len(packet), len(packet))
    header, body, suffix = packet[:header_len], packet[header_len:], suffixes(1)[0]
    sealed = header + oracle.encrypt(mode, KEY, oracle.whole_nonce(mode, suffix), header, body) + suffix
    good = oracle.seal(mode, KEY, GOOD, suffix)
    burst = Opener(mode, KEY).open_burst([good, sealed, good])
    refused = Status.TRUNCATED if "header" in reason else Status.MALFORMED
    assert burst.statuses == (Status.OK, refused, Status.OK)
    assert burst[1] is None
    assert [opened.plain for opened in (burst[0], burst[2]) if opened] == [GOOD, GOOD]


@MODES
def test_a_packet_that_is_all_padding_to_the_last_byte_is_sealed(mode: Mode) -> None:
    """The limit itself: 15 bytes of padding where 15 are."""
    packet = with_byte(42, 15)
    assert oracle.parse(packet).payload == b""
    sealed = Sealer(mode, KEY).seal_burst([packet]).tolist()
    assert sealed == [oracle.seal(mode, KEY, packet, suffixes(1)[0])]
    burst = Opener(mode, KEY).open_burst(sealed)
    assert burst.statuses == (Status.EMPTY,)
    assert burst[0] is not None
    assert burst[0].payload == b""
