"""Discord's rtpsize packets made by ``cryptography`` alone: what the demonstration and the tests hold dvcrypto against.

It is slow, and shares no code with what it checks. RTP and RTCP are read by RFC 3550, told apart by RFC 5761 section 4.
XChaCha20-Poly1305 is draft-irtf-cfrg-xchacha-03: HChaCha20 (section 2.2) in plain Python, then ``cryptography``'s
ChaCha20Poly1305 under the subkey (section 2.3).
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

GCM: Final = "aead_aes256_gcm_rtpsize"
XCHACHA: Final = "aead_xchacha20_poly1305_rtpsize"
NONCE_LEN: Final = {GCM: 12, XCHACHA: 24}
SUFFIX_LEN: Final = 4

Cipher = Callable[[bytes, bytes, bytes | None], bytes]


def seal(mode: str, key: bytes, packet: bytes, suffix: bytes) -> bytes:
    """Header, ciphertext, tag, nonce suffix."""
    header, body = packet[: clear_header_len(packet)], packet[clear_header_len(packet) :]
    return header + encrypt(mode, key, whole_nonce(mode, suffix), header, body) + suffix


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


def whole_nonce(mode: str, suffix: bytes) -> bytes:
    """The 4 bytes on the wire, then zeros."""
    assert len(suffix) == SUFFIX_LEN
    return suffix.ljust(NONCE_LEN[mode], b"\0")


def encrypt(mode: str, key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
    """Ciphertext and tag, for a whole nonce: 12 bytes for AES-256-GCM, 24 for XChaCha20-Poly1305."""
    encrypting, _, short_nonce = ciphers(mode, key, nonce)
    return encrypting(short_nonce, plain, aad)


def ciphers(mode: str, key: bytes, nonce: bytes) -> tuple[Cipher, Cipher, bytes]:
    """Encryption, decryption, and the nonce that either takes."""
    assert len(nonce) == NONCE_LEN[mode]
    if mode == GCM:
        return (*_gcm(key), nonce)
    return (*_chacha(key, nonce[:16]), bytes(4) + nonce[16:])


@lru_cache(maxsize=4096)
def _gcm(key: bytes) -> tuple[Cipher, Cipher]:
    cipher = AESGCM(key)
    return cipher.encrypt, cipher.decrypt


@lru_cache(maxsize=4096)
def _chacha(key: bytes, first_16_of_nonce: bytes) -> tuple[Cipher, Cipher]:
    cipher = ChaCha20Poly1305(hchacha20(key, first_16_of_nonce))
    return cipher.encrypt, cipher.decrypt


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
