"""The engines of a mode give the same bytes, those of ``cryptography``, at every length and for every clear header.

The plaintext is real: the Opus and H.264 of the project's demo.pcap. The headers are the first of its RTP headers with
all the CSRC counts and the extension bit that RTP allows, and the first 8 bytes of its RTCP.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dpkt
import oracle
import pytest
from conftest import ENGINES, RawEngines

import dvcrypto
from dvcrypto import Opener, Sealer

# The key and the nonce suffix of a real packet of the official client: Discord-RE/Discord-video-stream, issue 50.
KEY = bytes.fromhex("4405dfc5d83d86c231d3313a59cef41d6b780641acf007c9af841dc616b278a2")
FIRST_SUFFIX = 0x8000005A
PACKET_MAX_LEN = 65_535
SMALL = range(2_001)
# Around the sizes at which libraries change their ways, up to what fits behind every header.
LARGE = [2_047, 2_048, 2_049, 4_096, 8_191, 8_192, 16_383, 16_384, 16_385, 32_768, 49_152, 65_000, 65_439]
CONTEXTS = 18


@cache
def demo_datagrams() -> list[bytes]:
    """The UDP payloads of the project's capture."""
    with (Path(dvcrypto.__file__).parent / "cli" / "demo.pcap").open("rb") as file:
        frames = [dpkt.ethernet.Ethernet(frame) for _, frame in dpkt.pcap.UniversalReader(file)]
    packets = [frame.data.data for frame in frames if isinstance(frame.data, dpkt.ip.IP)]
    return [bytes(packet.data) for packet in packets if isinstance(packet, dpkt.udp.UDP)]


@cache
def media() -> bytes:
    """65,535 bytes and more of real packets."""
    joined = b"".join(demo_datagrams())
    assert len(joined) > PACKET_MAX_LEN
    return joined


@cache
def clear_headers() -> list[bytes]:
    """A header of every length there is: of RTCP 8 bytes; of RTP 12 to 76, in steps of 4."""
    real = [packet for packet in demo_datagrams() if len(packet) > 8 and packet[0] >> 6 == 2]
    rtcp = next(packet for packet in real if oracle.is_rtcp(packet))
    rtp = next(packet for packet in real if not oracle.is_rtcp(packet))
    headers = {8: rtcp[:8]}
    for csrc_count in range(16):
        for extension in (0, 0x10):
            first = bytes((0x80 | extension | csrc_count,))
            csrcs = media()[: 4 * csrc_count]
            header = first + rtp[1:12] + csrcs + (b"\xbe\xde\x00\x00" if extension else b"")
            assert oracle.clear_header_len(header) == len(header)
            headers[len(header)] = header
    return list(headers.values())


def runnable(raw: RawEngines, mode: str) -> list[str]:
    """The engines of a mode, all of them or a visible skip."""
    missing = [engine for engine in ENGINES[mode] if not raw.available(engine)]
    if missing:
        pytest.skip(f"{', '.join(missing)} cannot run on this machine")
    return list(ENGINES[mode])


def nonce_of(mode: str, number: int) -> bytes:
    """One for each plaintext length."""
    return oracle.whole_nonce(mode, (FIRST_SUFFIX + number).to_bytes(4, "little"))


def lengths_and_headers() -> Iterator[tuple[int, bytes]]:
    """Every small length and some large ones, each with every header; the longest packet of all with each header."""
    for header in clear_headers():
        for length in (*SMALL, *LARGE, PACKET_MAX_LEN - oracle.OVERHEAD_LEN - len(header)):
            yield length, header


MODES = pytest.mark.parametrize("mode", list(ENGINES))


def test_every_clear_header_that_rtp_allows_is_tried() -> None:
    lengths = sorted(len(header) for header in clear_headers())
    assert lengths == [8, *range(12, 77, 4)]
    assert len(lengths) == CONTEXTS
    assert max(LARGE) + max(lengths) + oracle.OVERHEAD_LEN == PACKET_MAX_LEN


@MODES
def test_engines_seal_to_the_bytes_of_cryptography(raw: RawEngines, mode: str) -> None:
    engines = runnable(raw, mode)
    tried = 0
    for length, header in lengths_and_headers():
        nonce, plain = nonce_of(mode, length), media()[:length]
        expected = oracle.encrypt(mode, KEY, nonce, header, plain)
        for engine in engines:
            sealed = raw.seal(engine, KEY, nonce, header, plain)
            assert sealed == expected, f"{engine}, {length} bytes behind a header of {len(header)}"
            tried += 1
    assert tried == len(engines) * CONTEXTS * (len(SMALL) + len(LARGE) + 1)


@MODES
def test_engines_open_what_another_sealed(raw: RawEngines, mode: str) -> None:
    engines = runnable(raw, mode)
    for length, header in lengths_and_headers():
        nonce, plain = nonce_of(mode, length), media()[:length]
        for sealing, opening in zip(engines, reversed(engines), strict=True):
            opened = raw.open(opening, KEY, nonce, header, raw.seal(sealing, KEY, nonce, header, plain))
            assert opened == plain, f"{opening} of {sealing}, {length} bytes behind a header of {len(header)}"


@MODES
def test_engines_refuse_one_changed_bit_anywhere(raw: RawEngines, mode: str) -> None:
    """In turn through ciphertext and tag, header and nonce, one bit for each length and header."""
    engines = runnable(raw, mode)
    nonce_len = oracle.NONCE_LEN[mode]
    for number, (length, header) in enumerate(lengths_and_headers()):
        whole = oracle.encrypt(mode, KEY, nonce_of(mode, length), header, media()[:length])
        changed = bytearray(nonce_of(mode, length) + header + whole)
        bit = number * 7919 % (8 * len(changed))  # a prime, so that the bits wander through all bytes
        changed[bit // 8] ^= 1 << bit % 8
        aad_end = nonce_len + len(header)
        nonce, aad, sealed = bytes(changed[:nonce_len]), bytes(changed[nonce_len:aad_end]), bytes(changed[aad_end:])
        for engine in engines:
            opened = raw.open(engine, KEY, nonce, aad, sealed)
            assert opened is None, f"{engine}, bit {bit} of {length} bytes behind a header of {len(header)}"


@MODES
def test_the_dispatch_gives_the_same_bytes_at_every_length(mode: str) -> None:
    """Whichever engine serves a length: through the crossovers, in one burst, each packet under a nonce of its own."""
    rtp = clear_headers()[1]
    packets = [rtp + media()[:length] for length in (*SMALL, *LARGE)]
    sealed = Sealer(mode, KEY, first_nonce=FIRST_SUFFIX).seal_burst(packets).tolist()
    for number, (packet, made) in enumerate(zip(packets, sealed, strict=True)):
        suffix = (FIRST_SUFFIX + number).to_bytes(4, "little")
        assert made == oracle.seal(mode, KEY, packet, suffix), f"a packet of {len(packet)} bytes"
    opened = Opener(mode, KEY).open_burst(sealed)
    assert [each.plain if each else None for each in opened] == packets
