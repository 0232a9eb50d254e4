"""The engines of an installed package, one at a time, with any nonce and any associated data.

An installed package has no sources to compile anew, but its stand-ins for PyNaCl's and ``cryptography``'s classes reach
its engines. DVCRYPTO_ENGINE is read when dvcrypto is imported, so each engine has a process of its own.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from conftest import ENGINES


class InstalledEngines:
    """What conftest.RawEngines is, of an installed package."""

    def available(self, engine: str) -> bool:
        import dvcrypto

        return any(each.name == engine and each.available for served in dvcrypto.engines().values() for each in served)

    def seal(self, engine: str, key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
        """Ciphertext and tag."""
        return _process(engine).submit(_seal, engine, key, nonce, aad, plain).result()

    def open(self, engine: str, key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
        """The plaintext, or None where the tag is wrong."""
        return _process(engine).submit(_open, engine, key, nonce, aad, sealed).result()


@cache
def _process(engine: str) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_force, initargs=(engine,))


# In that process


def _force(engine: str) -> None:
    os.environ["DVCRYPTO_ENGINE"] = engine


def _seal(engine: str, key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
    from dvcrypto.dropin.aesgcm import AESGCM
    from dvcrypto.dropin.nacl import Aead

    if engine in ENGINES["aead_aes256_gcm_rtpsize"]:
        return AESGCM(key).encrypt(nonce, plain, aad)
    return Aead(key).encrypt(plain, aad, nonce).ciphertext


def _open(engine: str, key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
    from dvcrypto.dropin.aesgcm import AESGCM, InvalidTag
    from dvcrypto.dropin.nacl import Aead, exceptions

    try:
        if engine in ENGINES["aead_aes256_gcm_rtpsize"]:
            return AESGCM(key).decrypt(nonce, sealed, aad)
        return Aead(key).decrypt(sealed, aad, nonce)
    except (InvalidTag, exceptions.CryptoError):
        return None
