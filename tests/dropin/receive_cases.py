"""What a receiver may find on its socket, sealed by ``cryptography`` and PyNaCl, and what of it is speech."""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from packets import OPUS_PAYLOAD_TYPE, Cipher, seal

SSRC = 0x0A0B_0C0D
OPUS = bytes(range(0x78, 0x98))
SILENCE = b"\xf8\xff\xfe"
LAST = b"the last packet of a case"
ONE_BYTE, TWO_BYTE = 0xBEDE, 0x1000  # extension profiles, RFC 8285

Seal = Callable[[bytes], bytes]


class Case(NamedTuple):
    """Datagrams, and the speech in them."""

    name: str
    datagrams: Callable[[Seal], Sequence[bytes]]
    speech: Sequence[bytes]


def rtp(
    payload: bytes,
    *,
    extension: tuple[int, bytes] | None = None,
    csrcs: Sequence[int] = (),
    padding_len: int = 0,
    sequence: int = 1000,
) -> bytes:
    """A plain RTP packet."""
    first = 0x80 | (0x20 if padding_len else 0) | (0x10 if extension else 0) | len(csrcs)
    packet = struct.pack("!BBHII", first, OPUS_PAYLOAD_TYPE, sequence, 960 * sequence, SSRC)
    packet += struct.pack(f"!{len(csrcs)}I", *csrcs)
    if extension:
        profile, body = extension
        packet += struct.pack("!HH", profile, len(body) // 4) + body
    padding = bytes(padding_len - 1) + bytes([padding_len]) if padding_len else b""
    return packet + payload + padding


def sealer(cipher: Cipher) -> Seal:
    """Seals with the nonces of one counter."""
    counter = iter(range(2**31))
    return lambda packet: seal(cipher, next(counter), packet)


def last(sequence: int = 2000) -> bytes:
    """A plain packet that comes after a case's, so that one knows when all is through."""
    return rtp(LAST, sequence=sequence)


def _one(name: str, packet: bytes, *speech: bytes) -> Case:
    return Case(name, lambda seal: [seal(packet)], speech)


def _body(words: int) -> bytes:
    """An extension's body with one element in it, in either form."""
    return (b"\x10\x7f\x00\x00" * 3)[: 4 * words]


def _flipped(datagram: bytes, at: int) -> bytes:
    return datagram[:at] + bytes([datagram[at] ^ 1]) + datagram[at + 1 :]


def _cases() -> Iterator[Case]:
    yield _one("plain", rtp(OPUS), OPUS)
    for form, profile in (("one-byte", ONE_BYTE), ("two-byte", TWO_BYTE)):
        for words in range(4):
            name = f"{form} extension of {words} words"
            yield _one(name, rtp(OPUS, extension=(profile, _body(words))), OPUS)
    yield _one("CSRCs", rtp(OPUS, csrcs=(1, 2)), OPUS)
    yield _one("CSRCs and extension", rtp(OPUS, csrcs=(1, 2), extension=(ONE_BYTE, _body(1))), OPUS)
    yield _one("padding", rtp(OPUS, padding_len=7), OPUS)
    all_of_it = rtp(OPUS, csrcs=(1, 2, 3), extension=(TWO_BYTE, _body(2)), padding_len=4)
    yield _one("CSRCs, extension, padding", all_of_it, OPUS)
    yield _one("padding only", rtp(b"", padding_len=12))
    yield _one("extension and padding only", rtp(b"", extension=(ONE_BYTE, _body(1)), padding_len=12))
    yield _one("no payload", rtp(b""))
    yield _one("silence", rtp(SILENCE), SILENCE)
    yield _one("payload that begins as an extension", rtp(b"\xbe\xde\x00\x01" + OPUS), b"\xbe\xde\x00\x01" + OPUS)
    for packet_type in (200, 201, 206):
        report = struct.pack("!BBHI", 0x80, packet_type, 6, SSRC) + struct.pack("!I", SSRC) + bytes(16)
        yield _one(f"RTCP {packet_type}", report)
    yield Case("keep-alive", lambda _: [bytes.fromhex("3713cafe00000000")], ())
    discovered = struct.pack(">HHI", 2, 70, SSRC) + b"127.0.0.1".ljust(64, b"\0") + b"\x12\x34"
    yield Case("discovery reply", lambda _: [discovered], ())
    for length in range(20):
        junk = rtp(bytes(8))[:length]
        yield Case(f"junk of {length} bytes", lambda _, junk=junk: [junk], ())  # type: ignore[misc]
    yield Case("junk of 40 bytes", lambda _: [rtp(bytes(28))], ())
    yield Case("flipped bit in the payload", lambda seal: [_flipped(seal(rtp(OPUS)), 20)], ())
    yield Case("flipped bit in the header", lambda seal: [_flipped(seal(rtp(OPUS)), 7)], ())
    yield Case("flipped bit in the tag", lambda seal: [_flipped(seal(rtp(OPUS)), -5)], ())
    yield Case("flipped bit in the nonce", lambda seal: [_flipped(seal(rtp(OPUS)), -1)], ())
    yield Case("replay", lambda seal: [seal(rtp(OPUS))] * 2, [OPUS])


CASES = tuple(_cases())
