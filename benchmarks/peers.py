"""What people use instead, each doing the whole job: header, ciphertext, tag and nonce in one bytes object.

A peer that is not installed is left out.
"""

import importlib.util
import struct
from collections.abc import Callable
from importlib import metadata
from typing import Any

import dvcrypto

KEY = bytes(range(32))
Seal = Callable[[bytes, bytes], object]
"""Seals one packet, given its header and its payload."""


def cryptography(mode: dvcrypto.Mode) -> Seal | None:
    """AESGCM of ``cryptography``, made once. It has no XChaCha20-Poly1305."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if mode != dvcrypto.Mode.AES256_GCM:
        return None
    encrypt, counter = AESGCM(KEY).encrypt, 0

    def seal(header: bytes, payload: bytes) -> bytes:
        nonlocal counter
        counter += 1
        suffix = counter.to_bytes(4, "little")
        return header + encrypt(suffix + bytes(8), payload, header) + suffix

    return seal


def pynacl(mode: dvcrypto.Mode) -> Seal | None:
    """Aead of PyNaCl, made once."""
    from nacl.secret import Aead

    if mode != dvcrypto.Mode.XCHACHA20_POLY1305:
        return None
    encrypt, counter = Aead(KEY).encrypt, 0

    def seal(header: bytes, payload: bytes) -> bytes:
        nonlocal counter
        counter += 1
        suffix = counter.to_bytes(4, "little")
        return header + encrypt(payload, header, suffix + bytes(20)).ciphertext + suffix

    return seal


def discord_py(mode: dvcrypto.Mode) -> Seal | None:
    """discord.py's own method, of a client that was never connected."""
    from discord.voice_client import VoiceClient

    if mode != dvcrypto.Mode.XCHACHA20_POLY1305:
        return None

    secret_key = list(KEY)

    class Client(VoiceClient):
        def __init__(self) -> None:
            self._incr_nonce = 0

        @property
        def secret_key(self) -> list[int]:
            return secret_key

    return Client()._encrypt_aead_xchacha20_poly1305_rtpsize


def pycryptodome(mode: dvcrypto.Mode) -> Seal | None:
    """pycryptodome, which makes a cipher for every packet."""
    from Crypto.Cipher import AES, ChaCha20_Poly1305

    counter, gcm = 0, mode == dvcrypto.Mode.AES256_GCM

    def seal(header: bytes, payload: bytes) -> bytes:
        nonlocal counter
        counter += 1
        suffix = struct.pack("<I", counter)
        if gcm:
            cipher: Any = AES.new(KEY, AES.MODE_GCM, nonce=suffix + bytes(8))
        else:
            cipher = ChaCha20_Poly1305.new(key=KEY, nonce=suffix + bytes(20))
        cipher.update(header)
        ciphertext, tag = cipher.encrypt_and_digest(payload)
        return header + ciphertext + tag + suffix

    return seal


def discord_native_voice(mode: dvcrypto.Mode) -> Seal | None:
    """TransportCrypto of discord-native-voice, by its compiled module: the package around it wants discord.py-self."""
    files = metadata.files("discord-native-voice") or []
    compiled = next(file for file in files if file.name.startswith("_native_voice.") and file.suffix in {".so", ".pyd"})
    spec = importlib.util.spec_from_file_location("_native_voice", compiled.locate())
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seal: Seal = module.TransportCrypto(mode.value, KEY).encrypt_rtp
    return seal


def installed(mode: dvcrypto.Mode) -> dict[str, Seal]:
    """The peers that are here and speak this mode."""
    found = {}
    for peer in (cryptography, pynacl, discord_py, pycryptodome, discord_native_voice):
        try:
            seal = peer(mode)
        except (ImportError, StopIteration):
            continue
        if seal:
            found[peer.__name__] = seal
    return found
