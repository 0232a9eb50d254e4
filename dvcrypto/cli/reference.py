"""The same sealed packets made in another way: with ``cryptography`` alone, and the layout read by itself.

The demonstration and the tests hold dvcrypto against it; it is slow, and shares no code with what it checks.
"""

import struct
from functools import lru_cache

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

_MASK = 0xFFFFFFFF


def seal(mode: str, key: bytes, packet: bytes, suffix: bytes) -> bytes:
    """A plain RTP or RTCP packet, sealed with the 4 nonce bytes that go behind the tag."""
    clear = clear_header_len(packet)
    header, body = packet[:clear], packet[clear:]
    if mode == "aead_aes256_gcm_rtpsize":
        sealed = AESGCM(key).encrypt(suffix + bytes(8), body, header)
    else:
        # draft-irtf-cfrg-xchacha-03, section 2.3: a subkey from the nonce's first 16 bytes, and a nonce of 4 zero bytes
        # and its last 8, all of them zero here.
        sealed = ChaCha20Poly1305(hchacha20(key, suffix + bytes(12))).encrypt(bytes(12), body, header)
    return header + sealed + suffix


def clear_header_len(packet: bytes) -> int:
    """How many bytes stay clear: 8 of RTCP; of RTP the fixed header, the CSRCs and the extension's preamble."""
    if packet[1] in range(192, 224):
        return 8
    return 12 + 4 * (packet[0] & 0x0F) + (4 if packet[0] & 0x10 else 0)


@lru_cache(maxsize=65536)
def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """HChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2): 20 rounds of ChaCha, first and last row of the state."""
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce)]
    for _ in range(10):
        for column in range(4):
            _quarter_round(state, column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            _quarter_round(state, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<8I", *state[:4], *state[12:])


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439, section 2.1."""
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = (state[x] + state[y]) & _MASK
        state[z] ^= state[x]
        state[z] = (state[z] << bits | state[z] >> (32 - bits)) & _MASK
