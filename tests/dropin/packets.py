"""Discord's transport encryption by ``cryptography`` and PyNaCl alone: what judges dvcrypto must not be dvcrypto.

Layout as in docs/wire-format.md: clear header, which is the associated data; ciphertext and tag; 4 bytes of nonce.
"""

import struct
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl import bindings
from nacl.exceptions import CryptoError

GCM = "aead_aes256_gcm_rtpsize"
XCHACHA = "aead_xchacha20_poly1305_rtpsize"
SUFFIX_LEN = 4
TAG_LEN = 16
OPUS_PAYLOAD_TYPE = 120


class BadPacket(Exception):
    """What was sent is not a packet that the key opens."""


class Opened(NamedTuple):
    """A packet in clear."""

    header: bytes
    payload: bytes
    """All that was sealed: an extension's body and padding too."""
    suffix: bytes
    """The 4 bytes that the nonce was made of."""


class Cipher(Protocol):
    """An AEAD under one key, whose nonce is the suffix with zeros behind it."""

    def encrypt(self, suffix: bytes, plain: bytes, aad: bytes) -> bytes: ...

    def decrypt(self, suffix: bytes, sealed: bytes, aad: bytes) -> bytes: ...


class Aes256Gcm:
    """By ``cryptography``."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def encrypt(self, suffix: bytes, plain: bytes, aad: bytes) -> bytes:
        return self._aead.encrypt(suffix.ljust(12, b"\0"), plain, aad)

    def decrypt(self, suffix: bytes, sealed: bytes, aad: bytes) -> bytes:
        try:
            return self._aead.decrypt(suffix.ljust(12, b"\0"), sealed, aad)
        except InvalidTag:
            raise BadPacket("the tag is wrong") from None


class XChaCha20Poly1305:
    """By PyNaCl's bindings to libsodium."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def encrypt(self, suffix: bytes, plain: bytes, aad: bytes) -> bytes:
        nonce = suffix.ljust(24, b"\0")
        return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plain, aad, nonce, self._key)

    def decrypt(self, suffix: bytes, sealed: bytes, aad: bytes) -> bytes:
        nonce = suffix.ljust(24, b"\0")
        try:
            return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, aad, nonce, self._key)
        except CryptoError:
            raise BadPacket("the tag is wrong") from None


CIPHERS: dict[str, type[Aes256Gcm] | type[XChaCha20Poly1305]] = {GCM: Aes256Gcm, XCHACHA: XChaCha20Poly1305}


def clear_header_len(packet: bytes) -> int:
    """Bytes that stay clear: of RTCP 8; of RTP the header with CSRCs and an extension's preamble."""
    if 192 <= packet[1] <= 223:
        return 8
    return 12 + 4 * (packet[0] & 0x0F) + (4 if packet[0] & 0x10 else 0)


def seal(cipher: Cipher, counter: int, packet: bytes) -> bytes:
    """Seal a plain RTP or RTCP packet; the suffix is the counter, little-endian as the official client's."""
    header_len = clear_header_len(packet)
    suffix = struct.pack("<I", counter)
    return packet[:header_len] + cipher.encrypt(suffix, packet[header_len:], packet[:header_len]) + suffix


def open_sealed(cipher: Cipher, packet: bytes) -> Opened:
    """Open a packet. BadPacket where that fails."""
    if len(packet) < 8 + TAG_LEN + SUFFIX_LEN:
        raise BadPacket(f"{len(packet)} bytes are too short to be sealed")
    header_len = clear_header_len(packet)
    header, suffix = packet[:header_len], packet[-SUFFIX_LEN:]
    return Opened(header, cipher.decrypt(suffix, packet[header_len:-SUFFIX_LEN], header), suffix)


def rtp(sequence: int, timestamp: int, ssrc: int, payload: bytes) -> bytes:
    """A plain RTP packet with Discord's payload type for Opus, and no extension."""
    header = struct.pack("!BBHII", 0x80, OPUS_PAYLOAD_TYPE, sequence % 2**16, timestamp % 2**32, ssrc)
    return header + payload
