"""What is installed beside us, each doing the whole job: header, ciphertext, tag and nonce in one bytes object."""

from collections.abc import Callable

Seal = Callable[[bytes, bytes], bytes]
"""Seals one packet, given its header and its payload."""


def installed() -> dict[str, Callable[[bytes], Seal]]:
    """Those that are here, by name and cipher; each makes a function of a key."""
    makers = {"PyNaCl XChaCha20-Poly1305": _pynacl, "cryptography AES-256-GCM": _cryptography}
    return {name: maker for name, maker in makers.items() if _is_here(maker)}


def _is_here(maker: Callable[[bytes], Seal]) -> bool:
    try:
        maker(bytes(32))
    except ImportError:
        return False
    return True


def _pynacl(key: bytes) -> Seal:
    from nacl.secret import Aead

    encrypt, counter = Aead(key).encrypt, 0

    def seal(header: bytes, payload: bytes) -> bytes:
        nonlocal counter
        counter += 1
        suffix = counter.to_bytes(4, "little")
        return bytes(header + encrypt(payload, header, suffix + bytes(20)).ciphertext + suffix)

    return seal


def _cryptography(key: bytes) -> Seal:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    encrypt, counter = AESGCM(key).encrypt, 0

    def seal(header: bytes, payload: bytes) -> bytes:
        nonlocal counter
        counter += 1
        suffix = counter.to_bytes(4, "little")
        return header + encrypt(suffix + bytes(8), payload, header) + suffix

    return seal
