"""What dvcrypto's bytes are judged by: packets taken apart by themselves, and sealed and opened by ``cryptography``.

Of dvcrypto only its reference is used, which is ``cryptography`` alone and which third-party vectors judge in turn. RTP
is read by RFC 3550 (sections 5.1, 5.3.1, 6.4.1), header extensions by RFC 8285.
"""

import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag

from dvcrypto.cli.reference import (
    GCM,
    NONCE_LEN,
    SUFFIX_LEN,
    XCHACHA,
    ciphers,
    clear_header_len,
    encrypt,
    hchacha20,
    is_rtcp,
    seal,
    whole_nonce,
)

__all__ = [
    "GCM",
    "NONCE_LEN",
    "OVERHEAD_LEN",
    "SUFFIX_LEN",
    "XCHACHA",
    "clear_header_len",
    "decrypt",
    "elements",
    "encrypt",
    "hchacha20",
    "is_rtcp",
    "open_sealed",
    "parse",
    "seal",
    "whole_nonce",
]

OVERHEAD_LEN = 16 + SUFFIX_LEN


class Parts(NamedTuple):
    """A plain packet, taken apart."""

    header: bytes
    """What stays clear, and is the associated data."""
    profile: int | None
    """Of the header extension; None where there is none, and for RTCP."""
    extension: bytes
    """The extension's body."""
    payload: bytes
    """Without padding; of RTCP, all behind the header."""
    padding: bytes


def parse(packet: bytes) -> Parts:
    """Take a plain packet apart. Raises ValueError, with the reason, where its bits contradict its length."""
    if len(packet) < 8:
        raise ValueError("shorter than any header")
    if packet[0] >> 6 != 2:
        raise ValueError(f"version {packet[0] >> 6}")
    header_len = clear_header_len(packet)
    if len(packet) < header_len:
        raise ValueError("the header runs past the end")
    header, body = packet[:header_len], packet[header_len:]
    if is_rtcp(packet):
        return Parts(header, None, b"", body, b"")

    profile, extension_len = None, 0
    if packet[0] & 0b1_0000:
        profile, words = struct.unpack("!HH", header[-4:])
        extension_len = 4 * words
    if len(body) < extension_len:
        raise ValueError("the extension runs past the end")
    extension, rest = body[:extension_len], body[extension_len:]

    padding_len = 0
    if packet[0] & 0b10_0000:
        padding_len = rest[-1] if rest else 0
        if padding_len == 0:
            raise ValueError("padding without a count")
        if padding_len > len(rest):
            raise ValueError("the padding is longer than what there is to pad")
    payload_len = len(rest) - padding_len
    return Parts(header, profile, extension, rest[:payload_len], rest[payload_len:])


def elements(profile: int, body: bytes) -> dict[int, bytes]:
    """The elements of a well-formed extension body by their ids (RFC 8285, sections 4.2 and 4.3)."""
    found: dict[int, bytes] = {}
    rest = body
    while rest.lstrip(b"\0"):
        rest = rest.lstrip(b"\0")
        if profile == 0xBEDE:
            number, length, rest = rest[0] >> 4, (rest[0] & 15) + 1, rest[1:]
        elif profile >> 4 == 0x100:
            number, length, rest = rest[0], rest[1], rest[2:]
        else:
            return {}
        found[number], rest = rest[:length], rest[length:]
    return found


def decrypt(mode: str, key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
    """The plaintext, or None where the tag is wrong."""
    _, decrypting, short_nonce = ciphers(mode, key, nonce)
    try:
        return decrypting(short_nonce, sealed, aad)
    except InvalidTag:
        return None


def open_sealed(mode: str, key: bytes, sealed: bytes) -> bytes | None:
    """The plain packet, or None where the tag is wrong."""
    header_len = clear_header_len(sealed)
    header, body, suffix = sealed[:header_len], sealed[header_len:-SUFFIX_LEN], sealed[-SUFFIX_LEN:]
    plain = decrypt(mode, key, whole_nonce(mode, suffix), header, body)
    return None if plain is None else header + plain
