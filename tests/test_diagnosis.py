"""Each mistake, made with `cryptography` or PyNaCl in exactly the wrong way, is named; right packets never are."""

import itertools
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nacl", reason="PyNaCl makes the mistakes")

import nacl.bindings
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dvcrypto import Mode
from dvcrypto.cli import reference
from dvcrypto.diagnosis import Diagnoser, Mistake, diagnose

KEY = bytes(range(32))
SUFFIX = bytes.fromhex("0f2a0180")
NONCE_LENS = {Mode.AES256_GCM: 12, Mode.XCHACHA20_POLY1305: 24}
TAG_LEN = 16


def rtp(csrc_count: int = 0, extension: bytes | None = None, payload: bytes = b"20 ms of Opus") -> bytes:
    """A plain RTP packet."""
    first = 0x80 | csrc_count | (0x10 if extension is not None else 0)
    header = struct.pack("!BBHII", first, 120, 7, 960, 0x0A0B0C0D) + bytes(range(4 * csrc_count))
    if extension is None:
        return header + payload
    return header + b"\xbe\xde" + (len(extension) // 4).to_bytes(2, "big") + extension + payload


RTCP = bytes.fromhex("80c80006000a0b0c") + bytes(range(20))
PLAIN = rtp()
EXTENDED = rtp(0, bytes.fromhex("107f000012345678"))
WITH_CSRCS = rtp(2)
WITH_BOTH = rtp(3, bytes.fromhex("107f0000"))
RTP_PACKETS = (PLAIN, EXTENDED, WITH_CSRCS, WITH_BOTH)


def sealed(mode: Mode, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
    return reference.encrypt(mode, KEY, nonce.ljust(NONCE_LENS[mode], b"\0"), aad, plain)


def clear(packet: bytes) -> int:
    return reference.clear_header_len(packet)


def made(mode: Mode) -> Iterator[tuple[str, Mistake, bytes]]:
    """Wrong packets: what was done, its name, the packet."""
    nonce_len = NONCE_LENS[mode]
    for name, packet in (("extended", EXTENDED), ("both", WITH_BOTH)):
        end = clear(packet)
        header, body = packet[:end], packet[end:]
        extension_len = 4 * int.from_bytes(packet[end - 2 : end], "big")
        yield f"{name}, 12 bytes", Mistake.AAD_FIRST_12, header + sealed(mode, SUFFIX, header[:12], body) + SUFFIX
        all_behind = header[:12] + sealed(mode, SUFFIX, header[:12], packet[12:]) + SUFFIX
        if name == "extended":
            yield f"{name}, all behind 12 bytes", Mistake.AAD_FIRST_12, all_behind
        extension = body[:extension_len]
        with_body = header + sealed(mode, SUFFIX, header + extension, body) + SUFFIX
        yield f"{name}, extension in the AAD", Mistake.AAD_WITH_EXTENSION_BODY, with_body
        for what, aad in (("", header + extension), (", header in the AAD", header), (", 12 in the AAD", header[:12])):
            as_srtp = header + extension + sealed(mode, SUFFIX, aad, body[extension_len:]) + SUFFIX
            yield f"{name}, extension clear{what}", Mistake.EXTENSION_CLEAR, as_srtp
    for name, packet in (("csrcs", WITH_CSRCS), ("both", WITH_BOTH)):
        end = clear(packet)
        csrcs_end = 12 + 4 * (packet[0] & 15)
        aad = packet[:12] + packet[csrcs_end:end]
        wrong = packet[:end] + sealed(mode, SUFFIX, aad, packet[end:]) + SUFFIX
        yield f"{name}, without CSRCs", Mistake.AAD_WITHOUT_CSRCS, wrong
    for index, packet in enumerate((*RTP_PACKETS, RTCP)):
        header, body = packet[: clear(packet)], packet[clear(packet) :]
        yield f"{index}, empty AAD", Mistake.AAD_EMPTY, header + sealed(mode, SUFFIX, b"", body) + SUFFIX
        right = sealed(mode, SUFFIX, header, body)
        swapped = sealed(mode, SUFFIX[::-1], header, body)
        yield f"{index}, swapped", Mistake.NONCE_SWAPPED, header + swapped + SUFFIX
        for offset in range(1, nonce_len - 4):
            shifted = sealed(mode, bytes(offset) + SUFFIX, header, body)
            yield f"{index}, nonce from {offset}", Mistake.NONCE_IN_MIDDLE, header + shifted + SUFFIX
        for suffix in (SUFFIX, SUFFIX[::-1]):
            at_end = sealed(mode, suffix.rjust(nonce_len, b"\0"), header, body)
            yield f"{index}, nonce at its end", Mistake.NONCE_RIGHT_ALIGNED, header + at_end + SUFFIX
        whole = SUFFIX.ljust(nonce_len, b"\0")
        yield f"{index}, whole nonce", Mistake.NONCE_WHOLE, header + right + whole
        random_nonce = bytes(range(50, 50 + nonce_len))
        yield (
            f"{index}, whole nonce, all of it random",
            Mistake.NONCE_WHOLE,
            header + sealed(mode, random_nonce, header, body) + random_nonce,
        )
        yield f"{index}, nonce in front", Mistake.NONCE_IN_FRONT, header + SUFFIX + right
        yield (
            f"{index}, tag and nonce",
            Mistake.TAG_AND_NONCE_SWAPPED,
            header + right[:-TAG_LEN] + SUFFIX + right[-TAG_LEN:],
        )
        yield f"{index}, tag in front", Mistake.TAG_IN_FRONT, header + right[-TAG_LEN:] + right[:-TAG_LEN] + SUFFIX
        if mode is Mode.XCHACHA20_POLY1305:
            for short in (SUFFIX.ljust(12, b"\0"), SUFFIX.rjust(12, b"\0")):
                text = ChaCha20Poly1305(KEY).encrypt(short, body, header)
                yield f"{index}, 12 bytes of nonce", Mistake.NONCE_12, header + text + SUFFIX
            text = ChaCha20Poly1305(KEY).encrypt(random_nonce[:12], body, header)
            yield f"{index}, 12 bytes of nonce on the wire", Mistake.NONCE_12, header + text + random_nonce[:12]
    yield "RTCP as RTP", Mistake.RTCP_AS_RTP, RTCP[:12] + sealed(mode, SUFFIX, RTCP[:12], RTCP[12:]) + SUFFIX
    for index, packet in enumerate(RTP_PACKETS):
        wrong = packet[:8] + sealed(mode, SUFFIX, packet[:8], packet[8:]) + SUFFIX
        yield f"{index}, RTP as RTCP", Mistake.RTP_AS_RTCP, wrong


CASES = [(mode, *case) for mode in Mode for case in made(mode)]


@pytest.mark.parametrize(("mode", "what", "mistake", "packet"), CASES, ids=[f"{c[0].name}, {c[1]}" for c in CASES])
def test_a_mistake_is_named(mode: Mode, what: str, mistake: Mistake, packet: bytes) -> None:
    for asked in (mode, None):
        diagnosis = diagnose(packet, KEY, mode=asked)
        assert (diagnosis.mistake, diagnosis.mode) == (mistake, mode), what
        assert diagnosis.reason == mistake.explanation
        assert diagnosis.opened is None
        assert not diagnosis.is_right


@pytest.mark.parametrize("packet", [*RTP_PACKETS, RTCP])
@pytest.mark.parametrize("mode", Mode)
def test_the_other_mode_is_named(mode: Mode, packet: bytes) -> None:
    (other,) = set(Mode) - {mode}
    diagnosis = diagnose(reference.seal(mode, KEY, packet, SUFFIX), KEY, mode=other)
    assert (diagnosis.mistake, diagnosis.mode, diagnosis.is_right) == (Mistake.OTHER_MODE, mode, False)
    assert diagnosis.opened is not None
    assert diagnosis.opened.plain == packet


@pytest.mark.parametrize("packet", [*RTP_PACKETS, RTCP])
def test_the_old_modes_are_named(packet: bytes) -> None:
    end = 8 if packet is RTCP else 12
    header, body = packet[:end], packet[end:]

    def box(nonce: bytes) -> bytes:
        return nacl.bindings.crypto_secretbox(body, nonce, KEY)

    random_nonce = bytes(range(24))
    lite = SUFFIX.ljust(24, b"\0")
    assert diagnose(header + box(random_nonce) + random_nonce, KEY).mistake is Mistake.XSALSA20_SUFFIX
    assert diagnose(header + box(lite) + SUFFIX, KEY).mistake is Mistake.XSALSA20_LITE
    assert diagnose(header + box(header.ljust(24, b"\0")), KEY).mistake is Mistake.XSALSA20


def random_packet(chance: random.Random) -> bytes:
    if chance.random() < 0.2:
        return bytes((0x80 | chance.randrange(4), chance.randrange(200, 207))) + chance.randbytes(
            6 + chance.randrange(60)
        )
    words = chance.choice([None, 0, 1, 3])
    extension = None if words is None else chance.randbytes(4 * words)
    packet = rtp(chance.randrange(16), extension, chance.randbytes(1 + chance.randrange(300)))
    return packet[:2] + chance.randbytes(10) + packet[12:]


def test_a_thousand_right_packets_are_right_and_under_another_key_that_is_said() -> None:
    chance = random.Random(1)
    for mode in Mode:
        right, wrong = Diagnoser(KEY, mode=mode), Diagnoser(chance.randbytes(32), mode=mode)
        for _ in range(1000):
            packet = random_packet(chance)
            datagram = reference.seal(mode, KEY, packet, chance.randbytes(4))
            diagnosis = right.diagnose(datagram)
            assert diagnosis.is_right, datagram.hex()
            assert diagnosis.opened is not None
            assert diagnosis.opened.plain == packet
            assert diagnosis.reason == ""
            assert wrong.diagnose(datagram).mistake is Mistake.WRONG_KEY


@pytest.mark.parametrize("mode", Mode)
def test_what_is_wrong_behind_the_tag_is_said_as_it_is(mode: Mode) -> None:
    too_long = bytearray(EXTENDED)
    too_long[15] = 200
    padded = bytes((0xA0, *PLAIN[1:-1], 250))
    for packet, words in ((bytes(too_long), "header extension of 800 bytes"), (padded, "padding count of 250")):
        diagnosis = diagnose(reference.seal(mode, KEY, packet, SUFFIX), KEY)
        assert diagnosis.mode is mode
        assert diagnosis.mistake is None
        assert words in diagnosis.reason
        assert not diagnosis.is_right


def test_what_is_no_media_is_said() -> None:
    keep_alive = diagnose(bytes(8), KEY)
    assert (keep_alive.kind, keep_alive.mistake, keep_alive.is_right) == ("keep-alive", None, False)
    response = struct.pack("!HHI64sH", 2, 70, 1234, b"192.0.2.7", 50_000)
    discovery = diagnose(response, KEY)
    assert discovery.kind == "discovery"
    assert {field.name: field.meaning for field in discovery.fields} == {
        "type": "2: response",
        "length": "70",
        "SSRC": "1234",
        "address": "192.0.2.7",
        "port": "50000",
    }


def test_random_datagrams_end_in_a_diagnosis_whose_fields_are_all_bytes() -> None:
    chance = random.Random(2)
    diagnoser = Diagnoser(KEY)
    for length in itertools.chain(range(80), (chance.randrange(1500) for _ in range(1000))):
        datagram = bytearray(chance.randbytes(length))
        if length and chance.random() < 0.8:
            datagram[0] = 0x80 | datagram[0] & 0x3F
        diagnosis = diagnoser.diagnose(datagram)
        assert not diagnosis.is_right
        assert diagnosis.reason
        ends = [0]
        for field in diagnosis.fields:
            assert field.start == ends[-1]
            ends.append(field.end)
        assert ends[-1] == length


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((b"\x80" * 40, bytes(31)), ValueError),
        ((b"\x80" * 40, "00" * 32), TypeError),
        (("packet", bytes(32)), TypeError),
        ((memoryview(bytes(80))[::2], bytes(32)), BufferError),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        diagnose(*arguments)
    with pytest.raises(ValueError, match="the modes are"):
        diagnose(bytes(40), bytes(32), mode="aead_future")


def test_real_packets_of_discord_are_described_by_field(vectors: Path) -> None:
    packets = json.loads((vectors / "discord" / "discord_packets.json").read_text(encoding="utf-8"))
    opus, report = packets["xchacha_opus_with_extension"], packets["gcm_rtcp_sender_report"]
    expected = {
        "bits": (0, 1, "version 2, 0 CSRCs, extension"),
        "payload type": (1, 2, "120"),
        "sequence": (2, 4, "22118"),
        "timestamp": (4, 8, "3220386864"),
        "SSRC": (8, 12, "48921"),
        "extension profile": (12, 14, "0xbede"),
        "extension length": (14, 16, "2 words of 4 bytes"),
        "ciphertext": (16, 77, "61 bytes"),
        "tag": (77, 93, ""),
        "nonce": (93, 97, "0x0000010f little-endian, 0x0f010000 big"),
    }
    assert described(opus) == expected
    expected = {
        "bits": (0, 1, "version 2, count 0"),
        "packet type": (1, 2, "200 sender report"),
        "length": (2, 4, "6: 28 bytes"),
        "SSRC": (4, 8, "388120"),
        "ciphertext": (8, 40, "32 bytes"),
        "tag": (40, 56, ""),
        "nonce": (56, 60, "0x8000005a little-endian, 0x5a000080 big"),
    }
    assert described(report) == expected


def described(vector: dict[str, Any]) -> dict[str, tuple[int, int, str]]:
    diagnosis = diagnose(bytes.fromhex(vector["encrypted"]), bytes.fromhex(vector["key"]), mode=vector["mode"])
    assert diagnosis.is_right
    return {field.name: field[1:] for field in diagnosis.fields}
