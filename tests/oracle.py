"""Discord's rtpsize packets made by ``cryptography`` alone: what dvcrypto's bytes are judged by.

Nothing of dvcrypto is used here. RTP and RTCP are read by RFC 3550 (sections 5.1, 5.3.1, 6.4.1), told apart by RFC 5761
(section 4); header extensions by RFC 8285. XChaCha20-Poly1305 is draft-irtf-cfrg-xchacha-03: HChaCha20 (section 2.2) in plain
Python, then ``cryptography``'s ChaCha20Poly1305 under the subkey (section 2.3).
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

GCM = "aead_aes256_gcm_rtpsize"
XCHACHA = "aead_xchacha20_poly1305_rtpsize"
NONCE_LEN = {GCM: 12, XCHACHA: 24}
TAG_LEN = 16
SUFFIX_LEN = 4
OVERHEAD_LEN = TAG_LEN + SUFFIX_LEN


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


# RTP and RTCP


def is_rtcp(packet: bytes) -> bool:
    """Whether the second byte is an RTCP packet type (RFC 5761, section 4)."""
    return packet[1] in range(192, 224)


def clear_header_len(packet: bytes) -> int:
    """How many bytes stay clear: of RTCP 8; of RTP 12, 4 for each CSRC, 4 for an extension's profile and length."""
    if is_rtcp(packet):
        return 8
    csrc_count = packet[0] & 0b1111
    has_extension = bool(packet[0] & 0b1_0000)
    return 12 + 4 * csrc_count + 4 * has_extension


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


# The ciphers


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The 32-byte subkey of a 32-byte key and 16 bytes of nonce (draft-irtf-cfrg-xchacha-03, section 2.2)."""
    state = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *struct.unpack("<4I", nonce)]
    for _ in range(10):
        for columns in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            _quarter_round(state, *columns)
        for diagonals in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            _quarter_round(state, *diagonals)
    return struct.pack("<8I", *state[:4], *state[12:])


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439, section 2.1."""
    for to, plus, mixed, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[to] = (state[to] + state[plus]) & 0xFFFF_FFFF
        word = state[mixed] ^ state[to]
        state[mixed] = (word << left | word >> (32 - left)) & 0xFFFF_FFFF


_Cipher = Callable[[bytes, bytes, bytes | None], bytes]


@lru_cache(maxsize=4096)
def _gcm(key: bytes) -> tuple[_Cipher, _Cipher]:
    cipher = AESGCM(key)
    return cipher.encrypt, cipher.decrypt


@lru_cache(maxsize=4096)
def _chacha(key: bytes, first_16_of_nonce: bytes) -> tuple[_Cipher, _Cipher]:
    cipher = ChaCha20Poly1305(hchacha20(key, first_16_of_nonce))
    return cipher.encrypt, cipher.decrypt


def _ciphers(mode: str, key: bytes, nonce: bytes) -> tuple[_Cipher, _Cipher, bytes]:
    """Encryption, decryption, and the nonce that either takes."""
    assert len(nonce) == NONCE_LEN[mode]
    if mode == GCM:
        return (*_gcm(key), nonce)
    return (*_chacha(key, nonce[:16]), bytes(4) + nonce[16:])


def encrypt(mode: str, key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
    """Ciphertext and tag, for a whole nonce: 12 bytes for AES-256-GCM, 24 for XChaCha20-Poly1305."""
    encrypting, _, short_nonce = _ciphers(mode, key, nonce)
    return encrypting(short_nonce, plain, aad)


def decrypt(mode: str, key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
    """The plaintext, or None where the tag is wrong."""
    _, decrypting, short_nonce = _ciphers(mode, key, nonce)
    try:
        return decrypting(short_nonce, sealed, aad)
    except InvalidTag:
        return None


# Discord's packets


def whole_nonce(mode: str, suffix: bytes) -> bytes:
    """The 4 bytes on the wire, then zeros."""
    assert len(suffix) == SUFFIX_LEN
    return suffix.ljust(NONCE_LEN[mode], b"\0")


def seal(mode: str, key: bytes, packet: bytes, suffix: bytes) -> bytes:
    """Header, ciphertext, tag, nonce suffix."""
    header, body = packet[: clear_header_len(packet)], packet[clear_header_len(packet) :]
    return header + encrypt(mode, key, whole_nonce(mode, suffix), header, body) + suffix


def open_sealed(mode: str, key: bytes, sealed: bytes) -> bytes | None:
    """The plain packet, or None where the tag is wrong."""
    header_len = clear_header_len(sealed)
    header, body, suffix = sealed[:header_len], sealed[header_len:-SUFFIX_LEN], sealed[-SUFFIX_LEN:]
    plain = decrypt(mode, key, whole_nonce(mode, suffix), header, body)
    return None if plain is None else header + plain
